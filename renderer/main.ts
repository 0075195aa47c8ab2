/** Starts the page: one desk, one tree of components. */
import { mount } from 'svelte';
import App from './app.svelte';
import './style/tokens.css';
import './style/base.css';
import './style/controls.css';
import './style/tables.css';
import { Desk } from './state/desk.svelte.ts';
import { openTransport } from './connection/transport.ts';

const target = document.getElementById('app');
if (target === null) throw new Error('The page has no place for the app.');

const desk = new Desk(openTransport);
desk.start();
mount(App, { target, props: { desk } });
