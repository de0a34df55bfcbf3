/** What a template shows: a text, a number, markup, a list of these, or nothing. */
type Markup = unknown;
/** The attributes that tie a control to its label, help and error. */
type Bind = Record<string, unknown>;
/** An event of a control that something is typed into or chosen in. */
type Typed = Event & { target: HTMLInputElement; currentTarget: HTMLInputElement };

/** Where something of an app is on the console's routes: the requests below it have types too. */
type FunctionPath = `/functions/${string}`;
type MemberPath = `/members/${string}`;
type RulesPath = `/tables/${string}/rules` | `/storages/files/${string}/rules`;
type SitePath = `/storages/webs/${string}`;
type WebhookPath = `/webhooks/${string}`;
type WorkflowPath = `/workflows/${string}`;
type RunPath = `/workflows/${string}/executions/${string}`;
/** Where a file storage is on the public routes. */
type FilesPath = `/v1/public/storages/files/${string}`;
