// Written by tools/console_types.py from the OpenAPI document.

/** The types of the API: a schema by its name, and what each route answers. */
declare namespace Api {
  interface Accepted {
    execution_id: string;
    workflow_id: string;
    status: "cancelled" | "completed" | "failed" | "pending" | "running" | "timeout";
  }
  interface AcceptedInvitation {
    app_id: string;
    role: "editor" | "owner" | "viewer";
  }
  type AccessLevel = "AppMember" | "Creator" | "Public";
  interface Account {
    member_id: string;
    nickname: string | null;
    is_active: boolean;
    custom_data: Record<string, any>;
    login_id: string | null;
    is_guest: boolean;
    roles: Array<string>;
    claims: Record<string, any>;
    created_at: string;
    email: string | null;
    pending_email: string | null;
    language: string | null;
    has_password: boolean;
    deletes_at: string | null;
  }
  interface AccountHooks {
    before_sign_up: string | null;
    before_sign_in: string | null;
    send_mail: string | null;
    verify_challenge: string | null;
  }
  interface AccountTheme {
    accent?: string | null;
    background?: string | null;
    radius?: number | null;
    font?: "mono" | "serif" | "system" | null;
    mode?: "auto" | "dark" | "light";
    texts?: Record<string, Record<string, string>>;
  }
  interface AccountUrls {
    verify: string | null;
    reset: string | null;
    sign_in: string | null;
    invite: string | null;
  }
  interface Accumulator {
    "$sum"?: Expression;
    "$avg"?: Expression;
    "$min"?: Expression;
    "$max"?: Expression;
    "$count"?: Record<string, any>;
    "$first"?: Expression;
    "$last"?: Expression;
    "$push"?: Expression;
    "$addToSet"?: Expression;
  }
  interface ActiveSession {
    session_id: string;
    user_agent: string | null;
    created_at: string;
    refreshed_at: string;
    expires_at: string;
  }
  interface AddFieldsStage {
    "$addFields": Record<string, Expression>;
  }
  interface AgentConfig {
    model?: string | null;
    system_prompt?: string;
    prompt?: string | null;
    tools?: Array<AgentTool>;
    output_schema?: Record<string, any> | null;
    max_turns?: number;
    max_tokens?: number;
    max_cost?: number | null;
    temperature?: number | null;
    tool_choice?: "auto" | "none" | "required";
  }
  interface AgentTool {
    function_id: string;
    name?: string;
    description?: string;
    parameters?: Record<string, any> | null;
  }
  interface AggregateResult {
    data: Array<Record<string, any>>;
    total_count: number;
  }
  interface AiProvider {
    base_url: string | null;
    has_api_key: boolean;
    default_model: string | null;
    header_names: Array<string>;
    prices: Record<string, ModelPrice>;
  }
  interface Alive {
    isolation: string;
    status: "ok";
  }
  interface AllStats {
    hours: number;
    data: Array<WebhookHours>;
  }
  interface ApiScope {
    name: string;
    title: string;
    description: string;
    is_default: boolean;
    is_required: boolean;
    translations: Record<string, ScopeTranslation>;
    claims: Record<string, string>;
    created_at: string;
    updated_at: string;
  }
  interface ApiScopePage {
    data: Array<ApiScope>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface App {
    app_id: string;
    name: string;
    schema_locked: boolean;
    created_at: string;
    updated_at: string;
    deleted_at: string | null;
    role: string;
    parent_app_id: string | null;
    branch: string | null;
    expires_at: string | null;
  }
  interface AppAccountSettings {
    sign_up: "closed" | "invited" | "open";
    sign_up_methods: Array<"email" | "guest" | "password" | "social">;
    login_id_form: "any" | "email";
    email_verification: "off" | "optional" | "required";
    second_factor: "off" | "optional" | "required";
    second_factors: Array<"email_code" | "passkey" | "recovery_code" | "totp">;
    methods: SignInMethods;
    passkey_domain: string | null;
    allowed_origins: Array<string>;
    theme: AccountTheme;
    logo_url: string | null;
    challenge_on: Array<"guest" | "mail" | "reset" | "signin" | "signup">;
    default_language: "de" | "en" | "es" | "fr" | "ja" | "ko" | "zh";
    password_check: boolean;
    on_member_delete: "anonymise" | "ask" | "delete" | "keep";
    deletion_grace_days: number;
    sign_up_fields: Array<SignUpField>;
    challenge: AppChallenge;
    impersonation: "editor" | "off" | "owner";
    team_second_factor: boolean;
    urls: AccountUrls;
    hooks: AccountHooks;
    on_sign_up: Array<SignUpRow>;
  }
  interface AppArchive {
    id: string;
    status: "completed" | "failed" | "pending";
    created_at: string;
    ended_at: string | null;
    is_scheduled: boolean;
    has_passphrase: boolean;
    with_secrets: boolean;
    bytes: number | null;
    tables: number | null;
    rows: number | null;
    files: number | null;
    missing_files: number | null;
    error: string | null;
  }
  interface AppArchiveList {
    data: Array<AppArchive>;
    total_count: number;
    kept: number;
  }
  interface AppBranch {
    branch_id: string;
    parent_app_id: string;
    name: string;
    rows: "all" | "none";
    members: "all" | "none";
    files: "all" | "none";
    state: "creating" | "failed" | "ready";
    error: string | null;
    public_key: string | null;
    created_at: string;
    expires_at: string;
  }
  interface AppBranchPage {
    data: Array<AppBranch>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface AppChallenge {
    provider: "hcaptcha" | "proof_of_work" | "recaptcha" | "turnstile";
    site_key: string | null;
    has_secret: boolean;
    open_when_unreachable: boolean;
  }
  interface AppImport {
    id: string;
    status: "completed" | "failed" | "running";
    created_at: string;
    bytes: number;
    app_id: string | null;
    name: string | null;
    tables: number | null;
    rows: number | null;
    files: number | null;
    missing_files: number | null;
    left_out: Array<string> | null;
    code: string | null;
    error: string | null;
  }
  interface AppLimits {
    limits: Record<string, Limit>;
  }
  interface AppName {
    app_id: string;
    name: string;
  }
  interface AppPage {
    data: Array<App>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface AppUser {
    user_id: string;
    email: string;
    role: "editor" | "owner" | "viewer";
    created_at: string;
  }
  interface AppUserPage {
    data: Array<AppUser>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface Approved {
    redirect_to: string;
    consent_id: string | null;
    scopes: Array<string>;
  }
  interface ArchiveLink {
    url: string;
    expires_at: string;
  }
  interface ArchiveSchedule {
    cron: string;
    timezone: string | null;
    keep: number;
    has_passphrase: boolean;
    with_secrets: boolean;
    next_run_at: string | null;
    last_run_at: string | null;
  }
  interface AskAnswer {
    domain: string;
  }
  interface AskedScope {
    name: string;
    title: string;
    description: string;
    is_required: boolean;
    already_granted: boolean;
  }
  interface Attention {
    running: number;
    failing: number;
    dead_jobs: number;
    exposure: number;
    archives: number;
    quotas: number;
  }
  interface AuditEntry {
    entry_id: string;
    created_at: string;
    actor_kind: string;
    actor_id: string | null;
    actor_email: string | null;
    action: string;
    target: string | null;
    details: Record<string, any>;
    request_id: string | null;
  }
  interface AuditEntryPage {
    data: Array<AuditEntry>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface AuditTarget {
    kind: "function" | "member" | "oauth_client" | "public_key" | "secret_key" | "site" | "storage" | "table" | "user" | "webhook" | "workflow";
    name: string;
  }
  interface AuditTargets {
    targets: Record<string, AuditTarget>;
  }
  interface AuthSettings {
    allow_id_password_login: boolean;
    allow_guest_login: boolean;
    enabled_oauth_providers: Array<string>;
  }
  interface AutocompleteResult {
    suggestions: Array<string>;
  }
  interface Branch {
    id: string;
    steps: Array<Step>;
  }
  interface BranchDiff {
    digest: string;
    differences: Array<Difference>;
  }
  interface BulkFailure {
    index: number;
    code: string;
    message: string;
    key?: string;
    existing_id?: string;
  }
  interface BulkResult {
    created: Array<Row>;
    total: number;
    success: number;
    failed?: Array<BulkFailure>;
  }
  interface Caller {
    type: string;
    id: string | null;
  }
  interface CastSample {
    row_id: string;
    before: string;
    after: string | null;
    message: string | null;
  }
  interface CatalogItem {
    event_type: string;
    title: string;
    description: string;
    required_scope: string | null;
    version: number;
    payload_schema: Record<string, any> | null;
    example: Record<string, any> | null;
    deprecated: boolean;
  }
  interface Changes {
    added: number;
    changed: number;
    removed: number;
  }
  interface ChannelKeep {
    messages: number;
    seconds: number;
  }
  interface ChannelPattern {
    pattern: string;
    listen?: any;
    send?: any;
    presence?: boolean;
    echo?: boolean;
    keep?: ChannelKeep | null;
    events?: boolean;
  }
  interface ChannelPatterns {
    channels: Array<ChannelPattern>;
  }
  interface ClientKeys {
    keys: Array<Record<string, any>>;
  }
  type ColumnDefinition = ColumnType | ColumnOptions;
  interface ColumnDifference {
    kind: string;
    name: string;
    rows: number;
    rows_that_do_not_fit: number;
  }
  interface ColumnItem {
    name: string;
    data_type: ColumnType;
    is_required: boolean;
    default_value: any;
    description: string | null;
    encrypted: boolean;
    order: number;
    references?: ShownReference;
    checks?: Record<string, any>;
    on_update?: any;
    normalize?: Array<string>;
    migrating?: "decrypting" | "encrypting";
  }
  interface ColumnList {
    columns: Array<ColumnItem>;
  }
  interface ColumnOptions {
    type: ColumnType;
    required?: boolean;
    default?: any;
    on_update?: Record<string, any>;
    unique?: boolean;
    normalize?: Array<"trim" | "lower" | "html">;
    description?: string;
    encrypted?: boolean;
    references?: ColumnReference;
    min?: any;
    max?: any;
    min_length?: number;
    max_length?: number;
    enum?: Array<any>;
    format?: "email" | "url" | "slug" | "hostname" | "e164" | "color";
  }
  interface ColumnReference {
    table?: string;
    key?: string;
    member?: true;
    on_delete?: "restrict" | "set_null" | "cascade" | "keep";
  }
  interface ColumnResult {
    message: string;
    id: string;
    name: string;
  }
  type ColumnType = "string" | "number" | "int" | "boolean" | "date" | "object" | "array" | "uuid" | "bool";
  interface Confirmation {
    message: string;
  }
  interface ConnectedClient {
    client_id: string;
    name: string;
    description: string;
    logo_url: string | null;
    client_uri: string | null;
    policy_uri: string | null;
    tos_uri: string | null;
  }
  interface Connection {
    consent_id: string;
    client: ConnectedClient;
    scopes: Array<GrantedScope>;
    granted_at: string;
    last_used_at: string | null;
  }
  interface ConnectionPage {
    data: Array<Connection>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface ConsentClient {
    client_id: string;
    name: string;
    logo_url: string | null;
    client_uri: string | null;
    policy_uri: string | null;
    tos_uri: string | null;
    first_party: boolean;
    is_verified: boolean;
    redirect_host: string;
  }
  interface ConsentInfo {
    request_id: string;
    expires_at: string;
    consent_required: boolean;
    reauthentication_required: boolean;
    scope: string;
    provider_app: AppName;
    member: MemberName;
    client: ConsentClient;
    scopes: Array<AskedScope>;
  }
  interface ConsentSession {
    member_id: string;
    nickname: string | null;
    access_token: string;
  }
  interface ConsoleConfig {
    version: string;
    assets: string;
    base_url: string;
    setup_required: boolean;
    password_min_length: number;
    password_max_length: number;
    sends_mail: boolean;
  }
  interface ConsoleInvocationResult {
    success: boolean;
    execution_id: string;
    result: any;
    duration: number;
    status: "error" | "success" | "timeout";
    error?: string;
    error_code?: string;
    logs: Array<LogLine>;
    start?: string | null;
    rejected?: Rejection;
  }
  interface ConsoleSession {
    user_id: string;
    email: string;
    access_token: string;
    expires_in: number;
    may_create_apps: boolean;
  }
  interface ContextEntry {
    kind: "delivery" | "function" | "request" | "workflow";
    id: string;
    target_id: string | null;
    parent_id: string | null;
    name: string;
    detail: string | null;
    status: string;
    is_failed: boolean;
    code: string | null;
    time: string;
    duration_ms: number | null;
  }
  interface CountStage {
    "$count": string;
  }
  interface CreatedApp {
    app_id: string;
    name: string;
    public_key: string;
    secret_key: string;
  }
  interface CreatedClient {
    client_id: string;
    app_id: string;
    consumer_app_id: string | null;
    name: string;
    description: string;
    client_type: "confidential" | "public";
    token_endpoint_auth_method: "client_secret_basic" | "client_secret_post" | "none" | "private_key_jwt";
    grant_types: Array<"authorization_code" | "client_credentials" | "refresh_token">;
    redirect_uris: Array<string>;
    post_logout_redirect_uris: Array<string>;
    scopes: Array<string>;
    resources: Array<string>;
    client_uri: string | null;
    logo_url: string | null;
    policy_uri: string | null;
    tos_uri: string | null;
    backchannel_logout_uri: string | null;
    backchannel_logout_session_required: boolean;
    is_resource_server: boolean;
    require_pushed_authorization_requests: boolean;
    dpop_bound_access_tokens: boolean;
    claims_in_id_token: boolean;
    jwks: ClientKeys | null;
    first_party: boolean;
    is_dynamic: boolean;
    is_active: boolean;
    source: string;
    has_secret: boolean;
    secret_prefix: string | null;
    previous_secret_expires_at: string | null;
    created_at: string;
    updated_at: string;
    last_used_at: string | null;
    client_secret: string | null;
  }
  interface CreatedTeamInvitation {
    team_invitation_id: string;
    email: string | null;
    roles: Array<string>;
    max_uses: number;
    uses: number;
    created_at: string;
    expires_at: string;
    token: string | null;
  }
  interface CreatedWebhook {
    id: string;
    app_id: string;
    name: string;
    description: string;
    url: string;
    event_types: Array<string>;
    table_ids: Array<string> | null;
    provider_app_id: string | null;
    client_id: string | null;
    headers: Record<string, string>;
    is_active: boolean;
    status: "active" | "arming" | "disabled" | "failing";
    disabled_reason: string | null;
    failing_since: string | null;
    timeout_seconds: number;
    max_in_flight: number;
    secret_prefix: string;
    previous_secret_expires_at: string | null;
    pending_count: number;
    last_success_at: string | null;
    last_failure_at: string | null;
    created_at: string;
    updated_at: string;
    secret: string;
  }
  interface Creator {
    kind: string;
    id: string | null;
  }
  interface CurrentMember {
    member_id: string;
    nickname: string | null;
    is_active: boolean;
    custom_data: Record<string, any>;
  }
  interface CustomDataResult {
    member_id: string;
    custom_data: Record<string, any>;
  }
  interface DailyTraffic {
    requests: number;
    client_errors: number;
    errors: number;
    date: string;
  }
  interface DayUsage {
    date: string;
    calls: number;
    failed_calls: number;
    executions: number;
    failed_executions: number;
    deliveries: number;
    failed_deliveries: number;
    deployments: number;
    failed_deployments: number;
  }
  interface DeadJob {
    job_id: string;
    kind: string;
    subject: string | null;
    attempts: number;
    created_at: string;
    ended_at: string | null;
    error: JobError | null;
  }
  interface DeadJobPage {
    data: Array<DeadJob>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface DeadJobResult {
    message: string;
    id: string;
  }
  interface DeclaredType {
    event_type: string;
    title: string;
    description: string;
    required_scope: string | null;
    payload_schema: Record<string, any> | null;
    example: Record<string, any> | null;
    version: number;
    deprecated: boolean;
    source: Source | null;
    created_at: string;
    updated_at: string;
  }
  interface Dedupe {
    header?: string | null;
    path?: string | null;
  }
  interface Deleted {
    message: string;
    id: string;
  }
  interface DeletedAccount {
    message: string;
    id: string;
  }
  interface DeletedAiProvider {
    message: string;
    id: string;
  }
  interface DeletedClient {
    message: string;
    id: string;
  }
  interface DeletedMailSettings {
    message: string;
    id: string;
  }
  interface DeletedMailTemplate {
    message: string;
    id: string;
  }
  interface DeletedPasskey {
    message: string;
    id: string;
  }
  interface DeletedProvider {
    message: string;
    name: string;
  }
  interface DeletedRow {
    message: string;
    id: string;
  }
  interface DeletedRows {
    deleted_count: number;
  }
  interface DeletedScope {
    message: string;
    name: string;
  }
  interface DeletedSuppression {
    message: string;
    id: string;
  }
  interface DeletedTeam {
    message: string;
    id: string;
  }
  interface DeletedType {
    message: string;
    id: string;
  }
  interface DeletedVariable {
    message: string;
    id: string;
  }
  interface Delivery {
    id: string;
    event_id: string;
    event_type: string;
    status: "cancelled" | "failed" | "pending" | "succeeded";
    is_test: boolean;
    attempt_count: number;
    status_code: number | null;
    error: string | null;
    duration_ms: number | null;
    next_attempt_at: string | null;
    next_attempt_reason: string | null;
    created_at: string;
    finished_at: string | null;
    request_id: string | null;
    attempts: Array<DeliveryAttempt>;
  }
  interface DeliveryAttempt {
    number: number;
    at: string;
    status_code: number | null;
    duration_ms: number;
    error: string | null;
    response_excerpt: string | null;
    response_headers: Record<string, any> | null;
  }
  interface DeliveryDetails {
    id: string;
    event_id: string;
    event_type: string;
    status: "cancelled" | "failed" | "pending" | "succeeded";
    is_test: boolean;
    attempt_count: number;
    status_code: number | null;
    error: string | null;
    duration_ms: number | null;
    next_attempt_at: string | null;
    next_attempt_reason: string | null;
    created_at: string;
    finished_at: string | null;
    request_id: string | null;
    attempts: Array<DeliveryAttempt>;
    request: SentRequest;
  }
  interface DeliveryPage {
    data: Array<Delivery>;
    limit: number;
    next_before: string | null;
  }
  interface Denied {
    redirect_to: string;
  }
  interface DeployResult {
    deployment: Deployment;
    production_deployment_id: string | null;
    qa_deployment_id: string | null;
    unchanged: boolean;
  }
  interface DeployWarning {
    code: string;
    path: string;
    message: string;
  }
  interface Deployment {
    id: string;
    storage_id: string;
    version: number | null;
    status: DeploymentStatus;
    source: string;
    target: string;
    base_deployment_id: string | null;
    file_count: number;
    total_size: number;
    uploaded_size: number;
    changes: Changes;
    manifest_hash: string | null;
    message: string | null;
    url: string | null;
    is_production: boolean;
    is_qa: boolean;
    warnings: Array<DeployWarning>;
    error: Problem | null;
    created_by: Creator;
    created_at: string;
    ready_at: string | null;
    branch?: string;
  }
  interface DeploymentList {
    deployments: Array<Deployment>;
    total_count: number;
    limit: number;
    offset: number;
    production_deployment_id: string | null;
    qa_deployment_id: string | null;
  }
  type DeploymentStatus = "expired" | "failed" | "processing" | "ready";
  interface Detail {
    field: string;
    code: string;
    message: string;
  }
  interface DeviceSession {
    session_id: string;
    user_agent: string | null;
    created_at: string;
    refreshed_at: string;
    expires_at: string;
    is_current: boolean;
    methods: Array<string>;
    level: number;
  }
  interface DeviceSessions {
    sessions: Array<DeviceSession>;
  }
  interface Difference {
    part: "channels" | "functions" | "settings" | "storages" | "tables" | "workflows";
    title: string;
    step: "change" | "conflict" | "create" | "drop" | "gone" | "left" | "newer";
    columns: Array<ColumnDifference>;
  }
  interface Disconnected {
    message: string;
    id: string;
  }
  interface Domain {
    hostname: string;
    is_verified: boolean;
    txt_name: string;
    txt_value: string;
    created_at: string;
    verified_at: string | null;
  }
  interface DomainDeleted {
    message: string;
    name: string;
  }
  interface DomainList {
    domains: Array<Domain>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface Egress {
    mode?: "allowlist" | "none" | "public";
    hosts?: Array<string>;
  }
  interface EmailTicket {
    ticket: string;
    expires_at: string;
  }
  interface EmptiedTrash {
    message: string;
    tables: number;
    columns: number;
  }
  interface EndedAccount {
    message: string;
    id: string;
    deletes_at: string | null;
  }
  interface EndedPresence {
    message: string;
    name: string;
  }
  interface EndedSessions {
    message: string;
    sessions: number;
  }
  interface Endpoints {
    issuer?: string | null;
    authorization?: string | null;
    token?: string | null;
    userinfo?: string | null;
    emails?: string | null;
    jwks?: string | null;
  }
  interface EventActor {
    kind: string;
    id: string | null;
  }
  interface EventCatalog {
    provider_app_id: string;
    name: string;
    events: Array<CatalogItem>;
  }
  interface EventPage {
    data: Array<StoredEvent>;
    limit: number;
    next_before: string | null;
  }
  interface Exchanged {
    member_id: string;
    nickname: string | null;
    access_token: string;
    refresh_token: string;
    token_type: string;
    expires_in: number;
    provider: string;
    is_new_member: boolean;
    request_id: string | null;
  }
  interface Execution {
    id: string;
    function_id: string;
    version: number | string;
    status: "error" | "success" | "timeout";
    trigger: string;
    caller: Caller;
    start: string | null;
    duration: number;
    queue_ms: number;
    load_ms: number;
    cpu_ms: number;
    peak_memory_mb: number | null;
    error: string | null;
    error_code: string | null;
    request_id: string | null;
    workflow_execution_id: string | null;
    step_id: string | null;
    log_lines: number;
    log_dropped: number;
    started_at: string;
    finished_at: string;
  }
  interface ExecutionDetails {
    id: string;
    function_id: string;
    version: number | string;
    status: "error" | "success" | "timeout";
    trigger: string;
    caller: Caller;
    start: string | null;
    duration: number;
    queue_ms: number;
    load_ms: number;
    cpu_ms: number;
    peak_memory_mb: number | null;
    error: string | null;
    error_code: string | null;
    request_id: string | null;
    workflow_execution_id: string | null;
    step_id: string | null;
    log_lines: number;
    log_dropped: number;
    started_at: string;
    finished_at: string;
    logs: Array<LogLine> | null;
  }
  interface ExecutionError {
    code: string;
    message: string | null;
    step_id: string | null;
  }
  interface ExecutionPage {
    data: Array<Execution>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface ExecutionProgress {
    completed: number;
    total: number;
  }
  interface ExportLink {
    url: string;
    expires_at: string;
  }
  interface ExportTicket {
    token: string | null;
    expires_at: string;
  }
  interface ExposureReport {
    findings: Array<Finding>;
  }
  type Expression = any;
  interface FieldError {
    field: string | null;
    code: string;
    message: string;
  }
  interface FileItem {
    type: "file";
    id: string;
    name: string;
    path: string;
    mime_type: string;
    size: number;
    url: string;
    parent_id: string | null;
    version: number;
    sha256: string | null;
    created_at: string;
    created_by?: string | null;
    updated_at: string;
  }
  interface FilePreset {
    name: string;
    description: string;
    rules: FileRuleSet;
  }
  interface FileRuleSet {
    list?: Record<string, any> | boolean | null;
    read?: Record<string, any> | boolean | null;
    create?: Record<string, any> | boolean | null;
    update?: Record<string, any> | boolean | null;
    delete?: Record<string, any> | boolean | null;
    define?: Record<string, any>;
  }
  interface FileRuleTestResult {
    allowed: boolean;
    status: number;
    code: string | null;
    message: string | null;
    parts: Array<RulePart>;
    visible_count: number | null;
    milliseconds: number;
  }
  interface Finding {
    severity: "high" | "low" | "medium" | "none";
    code: string;
    subject: string | null;
    message: string;
  }
  interface FolderContents {
    type: "folder";
    id: string;
    name: string;
    path: string;
    parent_id: string | null;
    created_at: string;
    updated_at: string;
    files: Array<FileItem | FolderItem>;
    total_count: number;
  }
  interface FolderItem {
    type: "folder";
    id: string;
    name: string;
    path: string;
    parent_id: string | null;
    created_at: string;
    updated_at: string;
  }
  interface Function {
    id: string;
    app_id: string;
    name: string;
    description: string;
    runtime: "javascript" | "python";
    entrypoint: string | null;
    invoke_access: "AppMember" | "Public" | "Secret";
    oauth_scope: string | null;
    scopes: Array<string>;
    timeout_seconds: number;
    memory_mb: number;
    egress: Egress;
    is_active: boolean;
    active_version: number | null;
    latest_version: number;
    created_at: string;
    updated_at: string;
  }
  interface FunctionDraft {
    files: Record<string, string> | null;
    stored_at: string | null;
  }
  interface FunctionPage {
    data: Array<Function>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface FunctionSource {
    files: Record<string, string>;
  }
  interface FunctionStats {
    buckets: Array<StatsBucket>;
  }
  interface FunctionVersion {
    id: string;
    function_id: string;
    version: number | string;
    status: "building" | "draft" | "expired" | "failed" | "queued" | "ready";
    runtime_version: string;
    entrypoint: string;
    source_bytes: number;
    bundle_bytes: number;
    sha256: string;
    packages: Array<Package>;
    warnings: Array<string>;
    error: string | null;
    message: string;
    created_by: string | null;
    created_at: string;
    ready_at: string | null;
    is_active: boolean;
  }
  interface FunctionVersionDetails {
    id: string;
    function_id: string;
    version: number | string;
    status: "building" | "draft" | "expired" | "failed" | "queued" | "ready";
    runtime_version: string;
    entrypoint: string;
    source_bytes: number;
    bundle_bytes: number;
    sha256: string;
    packages: Array<Package>;
    warnings: Array<string>;
    error: string | null;
    message: string;
    created_by: string | null;
    created_at: string;
    ready_at: string | null;
    is_active: boolean;
    build_log: string;
  }
  interface FunctionVersionPage {
    data: Array<FunctionVersion>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface GeoHit {
    id: string;
    data: Record<string, any>;
    created_at: string;
    created_by?: string | null;
    updated_at: string;
    expanded?: Record<string, any>;
    expanded_more?: Array<string>;
    counts?: Record<string, any>;
    sort?: string;
    distance: number;
  }
  interface GeoResult {
    data: Array<GeoHit>;
    total_count: number | null;
    next_cursor?: string | null;
  }
  interface GrantClient {
    client_id: string;
    name: string;
  }
  interface GrantMember {
    member_id: string;
    nickname: string | null;
  }
  interface GrantedScope {
    name: string;
    title: string;
  }
  interface GroupStage {
    "$group": { _id: Expression };
  }
  interface HourStats {
    hour: string;
    succeeded: number;
    failed: number;
    p50_ms: number | null;
    p95_ms: number | null;
  }
  interface ImpersonationToken {
    access_token: string;
    expires_at: string;
    session_id: string;
  }
  interface ImportProgress {
    table_id: string;
    key: string;
    created: number;
    rejected: number;
    line: number;
    position: number;
    finished: boolean;
  }
  interface ImportResult {
    table_id: string;
    key: string;
    created: number;
    rejected: number;
    updated?: number;
    ignored?: number;
    rejections: Array<Rejected>;
    resumed_at_line: number | null;
    was_finished: boolean;
  }
  interface ImportedMembers {
    created: number;
    rejected: Array<RejectedLine>;
  }
  interface IncrementalResult {
    deployment: Deployment | null;
    missing: Array<MissingFile>;
    missing_count: number;
    unchanged: boolean;
    production_deployment_id: string | null;
    qa_deployment_id: string | null;
  }
  interface Index {
    name: string;
    columns: Array<string>;
    uses: Array<UsePart>;
    method: string;
    state: "building" | "dropped" | "failed" | "ready";
    reason: string;
    size_bytes: number;
    created_at: string;
    last_used_at: string | null;
    error: string | null;
  }
  interface IndexList {
    indexes: Array<Index>;
    noted: Array<RecordedAccess>;
  }
  interface InspectedChannel {
    name: string;
    is_present: boolean;
  }
  interface InspectedStream {
    id: string;
    node_id: string;
    caller: string;
    member_id: string | null;
    address: string;
    opened_at: string;
    told: number;
    told_at: string | null;
    unsent_bytes: number;
    is_slow: boolean;
    subscriptions: Array<InspectedSubscription>;
    channels: Array<InspectedChannel>;
  }
  interface InspectedSubscription {
    id: string;
    table_id: string;
    where: Record<string, any> | null;
    row_id: string | null;
    told: number;
    resets: number;
    reset_reason: string | null;
  }
  interface Introspection {
    active: boolean;
    scope?: string | null;
    client_id?: string | null;
    sub?: string | null;
    username?: string | null;
    token_type?: string | null;
    exp?: number | null;
    iat?: number | null;
    iss?: string | null;
    aud?: string | Array<string> | null;
    jti?: string | null;
    sid?: string | null;
    app_id?: string | null;
    cnf?: Record<string, any> | null;
  }
  interface Invitation {
    invitation_id: string;
    email: string;
    role: "editor" | "owner" | "viewer";
    invited_by: string | null;
    created_at: string;
    expires_at: string;
  }
  interface InvitationPage {
    data: Array<Invitation>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface InvitedAddress {
    email: string;
    team: string | null;
    expires_at: string;
  }
  interface InvitedTo {
    team_id: string;
    name: string;
    slug: string | null;
    roles: Array<string>;
    expires_at: string;
  }
  interface InvocationResult {
    success: boolean;
    execution_id: string;
    result: any;
    duration: number;
    status: "error" | "success" | "timeout";
    error?: string;
    error_code?: string;
  }
  interface IssuedGrant {
    grant_id: string;
    client: GrantClient;
    member: GrantMember;
    session_id: string;
    scopes: Array<string>;
    resources: Array<string>;
    is_active: boolean;
    is_offline: boolean;
    is_bound: boolean;
    created_at: string;
    last_used_at: string | null;
    expires_at: string;
    revoked_at: string | null;
    revoke_reason: string | null;
  }
  interface IssuedGrantPage {
    data: Array<IssuedGrant>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface ItemList {
    files: Array<FileItem | FolderItem>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface JobError {
    code: string;
    message: string;
  }
  interface Jwk {
    kty: string;
    use: string;
    alg: string;
    kid: string;
    n: string;
    e: string;
  }
  interface JwkSet {
    keys: Array<Jwk>;
  }
  interface KnownType {
    event_type: string;
    built_in: boolean;
    title: string;
    description: string;
    required_scope: string | null;
    version: number;
    deprecated: boolean;
    example: Record<string, any> | null;
  }
  interface KnownTypePage {
    data: Array<KnownType>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface LastExecution {
    id: string;
    status: "cancelled" | "completed" | "failed" | "pending" | "running" | "timeout";
    started_at: string | null;
  }
  interface Limit {
    value: number;
    server_value: number;
    plan_value: number | null;
    is_own: boolean;
    is_settable: boolean;
    unit: string | null;
    zero_is_unlimited: boolean;
  }
  interface LimitStage {
    "$limit": number;
  }
  interface LiveNode {
    node_id: string;
    name: string;
    streams: number;
    subscriptions: number;
    channels: number;
    told: number;
    delay_ms: number | null;
    slowest_ms: number | null;
  }
  interface LiveSettings {
    live?: "members" | "off" | "public";
    tables?: Record<string, "members" | "off" | "public">;
  }
  interface LiveStreams {
    nodes: Array<LiveNode>;
    silent: Array<string>;
    total_count: number;
    streams: Array<InspectedStream>;
  }
  interface LiveTicket {
    ticket: string;
    url: string;
    expires_at: string;
  }
  interface LogLine {
    execution_id: string;
    index: number;
    time: string;
    level: "debug" | "error" | "info" | "warn";
    message: string;
  }
  interface LogPage {
    lines: Array<LogLine>;
    next: string | null;
  }
  interface LoginApp {
    app_id: string;
    name: string;
    public_key: string | null;
  }
  interface LoginClient {
    name: string;
    logo_url: string | null;
    client_uri: string | null;
  }
  interface LoginOptions {
    client_id: string;
    client: LoginClient;
    provider_app: LoginApp;
    allow_id_password_login: boolean;
    allow_guest_login: boolean;
    enabled_oauth_providers: Array<string>;
    providers: Array<LoginProvider>;
  }
  interface LoginProvider {
    provider: string;
    name: string;
  }
  interface Lookup {
    as: string;
    localField?: string;
    from?: string;
    fields?: Array<string>;
    where?: Where;
    order_by?: string;
    order_direction?: "asc" | "desc";
    limit?: number;
  }
  interface LookupStage {
    "$lookup": Lookup;
  }
  interface Mail {
    mail_id: string;
    purpose: string;
    recipient: string;
    member_id: string | null;
    language: string;
    subject: string;
    state: "bounced" | "deferred" | "expired" | "failed" | "queued" | "sent" | "stored" | "suppressed";
    attempts: number;
    reply: string | null;
    created_at: string;
    sent_at: string | null;
    expires_at: string | null;
    text: string | null;
    html: string | null;
    link: string | null;
    code: string | null;
    button: string | null;
  }
  interface MailItem {
    mail_id: string;
    purpose: string;
    recipient: string;
    member_id: string | null;
    language: string;
    subject: string;
    state: "bounced" | "deferred" | "expired" | "failed" | "queued" | "sent" | "stored" | "suppressed";
    attempts: number;
    reply: string | null;
    created_at: string;
    sent_at: string | null;
    expires_at: string | null;
  }
  interface MailPage {
    data: Array<MailItem>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface MailPreview {
    subject: string;
    text: string;
    html: string;
    link: string | null;
    code: string | null;
    button: string | null;
  }
  interface MailSettings {
    source: "app" | "mailbox" | "server";
    smtp_url: string | null;
    has_password: boolean;
    mail_from: string | null;
    mail_reply_to: string | null;
    mail_per_day: number;
    server_from: string | null;
  }
  interface MailTemplate {
    purpose: "account_deleted" | "account_deletion" | "address_changed" | "address_in_use" | "change_email" | "export_ready" | "invitation" | "message" | "reset_password" | "security_notice" | "sign_in" | "team_invitation" | "test" | "verify_email";
    language: "de" | "en" | "es" | "fr" | "ja" | "ko" | "zh";
    subject: string;
    is_custom: boolean;
    updated_at: string | null;
    text: string;
    button: string;
    html: string | null;
    variables: Array<string>;
  }
  interface MailTemplateItem {
    purpose: "account_deleted" | "account_deletion" | "address_changed" | "address_in_use" | "change_email" | "export_ready" | "invitation" | "message" | "reset_password" | "security_notice" | "sign_in" | "team_invitation" | "test" | "verify_email";
    language: "de" | "en" | "es" | "fr" | "ja" | "ko" | "zh";
    subject: string;
    is_custom: boolean;
    updated_at: string | null;
  }
  interface MailTemplates {
    templates: Array<MailTemplateItem>;
  }
  interface MailTest {
    recipient: string;
    state: "failed" | "sent" | "stored";
    reply: string | null;
  }
  interface Manifest {
    storage_id: string;
    deployment_id: string | null;
    version: number | null;
    algorithm: string;
    manifest_hash: string | null;
    file_count: number;
    total_size: number;
    files: Array<ManifestFile>;
  }
  interface ManifestFile {
    path: string;
    hash: string;
    size: number;
    content_type: string;
  }
  interface MatchStage {
    "$match": Where;
  }
  interface MemberIdentities {
    identities: Array<MemberIdentity>;
  }
  interface MemberIdentity {
    provider: string;
    subject: string;
    email: string | null;
    email_verified: boolean;
    linked_at: string;
    last_used_at: string;
  }
  interface MemberInvitation {
    invitation_id: string;
    email: string;
    roles: Array<string>;
    team_id: string | null;
    team_roles: Array<string>;
    language: "de" | "en" | "es" | "fr" | "ja" | "ko" | "zh" | null;
    state: "accepted" | "expired" | "open" | "revoked";
    created_at: string;
    expires_at: string;
  }
  interface MemberInvitationPage {
    data: Array<MemberInvitation>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface MemberItem {
    member_id: string;
    login_id: string | null;
    nickname: string | null;
    is_guest: boolean;
    is_active: boolean;
    roles: Array<string>;
    created_at: string;
    updated_at: string;
    last_active_at: string;
  }
  interface MemberName {
    member_id: string;
    nickname: string | null;
  }
  interface MemberPage {
    data: Array<MemberItem>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface MemberRecord {
    member_id: string;
    login_id: string | null;
    nickname: string | null;
    is_guest: boolean;
    is_active: boolean;
    roles: Array<string>;
    created_at: string;
    updated_at: string;
    last_active_at: string;
    sessions: number;
    custom_data: Record<string, any>;
    claims: Record<string, any>;
    email: string | null;
    factors: Array<string>;
    banned_until: string | null;
    ban_reason: string | null;
    deletes_at: string | null;
  }
  interface MemberResult {
    message: string;
    id: string;
  }
  interface MemberSessions {
    sessions: Array<ActiveSession>;
  }
  interface MemberSignInCode {
    code: string;
    expires_in: number;
  }
  interface MemberStats {
    total: number;
    guests: number;
    active_1d: number;
    active_7d: number;
    active_30d: number;
  }
  interface MemberToken {
    access_token: string;
    expires_in: number;
    session_id: string;
  }
  interface Merged {
    message: string;
    applied: Array<Difference>;
  }
  interface MetricPoint {
    requests: number;
    client_errors: number;
    errors: number;
    p50_ms: number | null;
    p95_ms: number | null;
    time: string;
  }
  interface MetricSeries {
    key: string;
    total: MetricTotals;
    points: Array<MetricPoint>;
  }
  interface MetricTotals {
    requests: number;
    client_errors: number;
    errors: number;
    p50_ms: number | null;
    p95_ms: number | null;
  }
  interface MissingFile {
    path: string;
    hash: string;
    size: number;
    upload_url: string;
    method: string;
    headers: Record<string, string>;
    expires_at: string;
  }
  interface ModelPrice {
    input: number;
    output: number;
  }
  type NotFoundMode = "404" | "auto" | "spa";
  interface OAuthSettings {
    is_provider: boolean;
    access_token_seconds: number;
    refresh_idle_days: number;
    refresh_absolute_days: number;
    consent_url: string | null;
    login_redirect_uris: Array<string>;
    dpop_nonce: "offered" | "required";
    link_by_verified_email: boolean;
    resources: Array<string>;
    dynamic_clients: boolean;
    dynamic_scopes: Array<string>;
    first_party_client_id: string | null;
    public_key: string | null;
    updated_at: string | null;
  }
  type OnDelete = "cascade" | "keep" | "restrict" | "set_null";
  interface OperationFailure {
    code: string;
    message: string;
  }
  interface OperationResult {
    index: number;
    type: string;
    success: boolean;
    id?: string | null;
    data?: Record<string, any> | null;
    updated_at?: string | null;
    created?: boolean | null;
    updated_count?: number | null;
    deleted_count?: number | null;
    error?: OperationFailure | null;
  }
  interface OperationResults {
    results: Array<OperationResult>;
    success_count: number;
    failed_count: number;
  }
  interface OwnFactors {
    totp: TotpFactor | null;
    recovery_codes: RecoveryCodesLeft;
    passkeys: Array<Passkey>;
  }
  interface OwnTeam {
    team_id: string;
    name: string;
    slug: string | null;
    data: Record<string, any>;
    member_count: number;
    created_by: string | null;
    created_at: string;
    roles: Array<string>;
    joined_at: string;
  }
  interface OwnTeams {
    teams: Array<OwnTeam>;
  }
  interface Package {
    name: string;
    version: string;
  }
  interface PageMeta {
    path: string;
    title: string | null;
    description: string | null;
    image: string | null;
    og_type: string | null;
    keywords: string | null;
    canonical_url: string | null;
    robots: string | null;
    twitter_card: string | null;
    site_name: string | null;
    locale: string | null;
    json_ld: Record<string, any> | null;
    include_in_sitemap: boolean | null;
    sitemap_priority: number | null;
    created_at: string;
    updated_at: string;
  }
  interface PageMetaBatchResult {
    pages: Array<PageMeta>;
    total: number;
    success: number;
  }
  interface PageMetaDeleted {
    message: string;
    path: string;
  }
  interface PageMetaList {
    pages: Array<PageMeta>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface PageMetasDeleted {
    message: string;
    deleted_count: number;
  }
  interface Passed {
    is_trusted: boolean;
    missing: Array<string>;
  }
  interface Passkey {
    id: string;
    name: string;
    is_synced: boolean;
    created_at: string;
    last_used_at: string | null;
  }
  interface PasskeyChallenge {
    ticket: string;
    options: Record<string, any>;
  }
  interface PresenceResult {
    channel: string;
  }
  interface Preset {
    name: string;
    description: string;
    rules: RuleSet;
  }
  interface Problem {
    code: string;
    message: string;
    details: Array<Detail>;
  }
  interface ProjectStage {
    "$project": Record<string, Expression>;
  }
  interface Promotion {
    production_deployment_id: string;
    previous_deployment_id: string | null;
    kind: string;
    deployment: Deployment;
  }
  interface ProtectedResource {
    resource: string;
    resource_name: string;
    authorization_servers: Array<string>;
    scopes_supported: Array<string>;
    bearer_methods_supported: Array<string>;
    jwks_uri: string;
  }
  interface ProviderOptions {
    name?: string | null;
    issuer?: string | null;
    trust_email?: boolean;
    team_id?: string | null;
    key_id?: string | null;
    version?: string | null;
    endpoints?: Endpoints | null;
  }
  interface PublicAccountSettings {
    sign_up: "closed" | "invited" | "open";
    sign_up_methods: Array<"email" | "guest" | "password" | "social">;
    login_id_form: "any" | "email";
    email_verification: "off" | "optional" | "required";
    second_factor: "off" | "optional" | "required";
    second_factors: Array<"email_code" | "passkey" | "recovery_code" | "totp">;
    methods: SignInMethods;
    passkey_domain: string | null;
    allowed_origins: Array<string>;
    theme: AccountTheme;
    logo_url: string | null;
    challenge_on: Array<"guest" | "mail" | "reset" | "signin" | "signup">;
    default_language: "de" | "en" | "es" | "fr" | "ja" | "ko" | "zh";
    password_check: boolean;
    on_member_delete: "anonymise" | "ask" | "delete" | "keep";
    deletion_grace_days: number;
    sign_up_fields: Array<SignUpField>;
    challenge: PublicChallenge;
    pages_url: string;
    guests: boolean;
    providers: Array<string>;
    password_min_length: number;
    password_max_length: number;
  }
  interface PublicChallenge {
    provider: "hcaptcha" | "proof_of_work" | "recaptcha" | "turnstile";
    site_key: string | null;
  }
  interface PublicKey {
    key_id: string;
    key: string;
    name: string;
    allowed_origins: Array<string>;
    created_at: string;
    last_used_at: string | null;
  }
  interface PublicKeyPage {
    data: Array<PublicKey>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface PublishedEvent {
    id: string;
    event_type: string;
    timestamp: string;
    duplicate: boolean;
  }
  interface PublishedEvents {
    events: Array<PublishedEvent>;
  }
  interface PushedAnswer {
    request_uri: string;
    expires_in: number;
  }
  interface Puzzle {
    challenge: string;
    difficulty: number;
    expires_in: number;
  }
  interface QueryResult {
    data: Array<Row>;
    total_count: number | null;
    limit: number;
    offset: number;
    next_cursor?: string | null;
  }
  interface QuotaUse {
    quota: "executions" | "file_bytes" | "function_seconds" | "mails" | "requests" | "row_bytes" | "traffic_bytes";
    used: number;
    limit: number;
    hard: boolean;
    percent: number;
    resets_at: string;
  }
  interface Ready {
    status: "ready";
    parts: Array<string>;
    lost_nodes?: Array<string>;
  }
  interface Reauthenticated {
    access_token: string;
    auth_time: string;
  }
  interface ReauthenticationTicket {
    ticket: string;
    options: Record<string, any> | null;
  }
  interface ReceivedContent {
    hash: string;
    size: number;
  }
  type ReceivedUpload = Record<string, any>;
  interface RecordedAccess {
    uses: Array<UsePart>;
    count: number;
    total_ms: number;
    first_used_at: string;
    last_used_at: string;
  }
  interface Recovered {
    queued: number;
  }
  interface RecoveryCodesInput {
    recovery_codes: Array<string>;
  }
  interface RecoveryCodesLeft {
    left: number;
  }
  interface ReferencedBy {
    table_id: string;
    table: string;
    column: string;
    on_delete: OnDelete;
    key?: string;
  }
  interface RegeneratedSecret {
    client_id: string;
    client_secret: string;
    previous_secret_expires_at: string | null;
  }
  interface RegisteredClient {
    client_id: string;
    app_id: string;
    consumer_app_id: string | null;
    name: string;
    description: string;
    client_type: "confidential" | "public";
    token_endpoint_auth_method: "client_secret_basic" | "client_secret_post" | "none" | "private_key_jwt";
    grant_types: Array<"authorization_code" | "client_credentials" | "refresh_token">;
    redirect_uris: Array<string>;
    post_logout_redirect_uris: Array<string>;
    scopes: Array<string>;
    resources: Array<string>;
    client_uri: string | null;
    logo_url: string | null;
    policy_uri: string | null;
    tos_uri: string | null;
    backchannel_logout_uri: string | null;
    backchannel_logout_session_required: boolean;
    is_resource_server: boolean;
    require_pushed_authorization_requests: boolean;
    dpop_bound_access_tokens: boolean;
    claims_in_id_token: boolean;
    jwks: ClientKeys | null;
    first_party: boolean;
    is_dynamic: boolean;
    is_active: boolean;
    source: string;
    has_secret: boolean;
    secret_prefix: string | null;
    previous_secret_expires_at: string | null;
    created_at: string;
    updated_at: string;
    last_used_at: string | null;
  }
  interface RegisteredClientPage {
    data: Array<RegisteredClient>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface Rejected {
    line: number;
    code: string;
    message: string;
    last_line?: number;
  }
  interface RejectedLine {
    line: number;
    code: string;
    message: string;
  }
  interface Rejection {
    status: number;
    message: string;
  }
  interface RemovedTeamMember {
    message: string;
    id: string;
  }
  interface Reproved {
    auth_time: string;
  }
  interface RequestContext {
    request_id: string;
    entries: Array<ContextEntry>;
    has_more: boolean;
  }
  interface RequestEntry {
    request_id: string;
    time: string;
    method: string;
    route: string;
    status: number;
    code: string | null;
    duration_ms: number;
    actor_kind: string;
    actor_id: string | null;
    address: string;
    function_id: string | null;
  }
  interface RequestEntryPage {
    data: Array<RequestEntry>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface RequestMetrics {
    series: Array<MetricSeries>;
  }
  interface RetriedJobs {
    message: string;
    retried: number;
  }
  interface RevokedTeamInvitation {
    message: string;
    id: string;
  }
  interface RotatedSecret {
    id: string;
    secret: string;
    previous_secret_expires_at: string | null;
  }
  interface Row {
    id: string;
    data: Record<string, any>;
    created_at: string;
    created_by?: string | null;
    updated_at: string;
    expanded?: Record<string, any>;
    expanded_more?: Array<string>;
    counts?: Record<string, any>;
    sort?: string;
  }
  interface RowPage {
    data: Array<Row>;
    total_count: number | null;
    limit: number;
    offset: number;
    next_cursor?: string | null;
    execution_time_ms: number;
  }
  interface RulePart {
    place: string;
    words: string;
    holds: boolean | null;
  }
  interface RuleSet {
    list?: Record<string, any> | boolean | null;
    read?: Record<string, any> | boolean | null;
    create?: Record<string, any> | boolean | null;
    update?: Record<string, any> | boolean | null;
    delete?: Record<string, any> | boolean | null;
    define?: Record<string, any>;
    columns?: Record<string, any>;
  }
  interface RuleTestResult {
    allowed: boolean;
    status: number;
    code: string | null;
    message: string | null;
    visible_columns: Array<string>;
    writable_columns: Array<string>;
    parts: Array<RulePart>;
    visible_count: number | null;
    milliseconds: number;
    index: "missing" | "small table" | "used" | null;
  }
  interface RuleWarning {
    code: string;
    place: string;
    message: string;
  }
  interface RuntimeState {
    name: "javascript" | "python";
    version: string | null;
    is_available: boolean;
    isolation: string | null;
    reason: string | null;
  }
  interface RuntimeStates {
    isolation: string | null;
    runtimes: Array<RuntimeState>;
  }
  interface SchemaPreview {
    changes: Array<SchemaPreviewChange>;
    locks: "background" | "brief";
  }
  interface SchemaPreviewChange {
    kind: "added" | "changed" | "dropped";
    name: string;
    from: ColumnDefinition | null;
    to: ColumnDefinition | null;
    rows: number;
    rows_that_do_not_fit: number | null;
    samples: Array<CastSample>;
  }
  interface ScopeTranslation {
    title: string;
    description?: string;
  }
  interface SearchHit {
    id: string;
    data: Record<string, any>;
    created_at: string;
    created_by?: string | null;
    updated_at: string;
    expanded?: Record<string, any>;
    expanded_more?: Array<string>;
    counts?: Record<string, any>;
    sort?: string;
    score: number;
    highlights: Record<string, string>;
  }
  interface SearchResult {
    data: Array<SearchHit>;
    total_count: number | null;
    next_cursor?: string | null;
  }
  interface SecondFactorStart {
    ticket: string;
    options: Record<string, any> | null;
  }
  interface SecretKey {
    key_id: string;
    prefix: string;
    name: string;
    role: "editor" | "viewer";
    user_id: string | null;
    email: string | null;
    may_sign_in_members: boolean;
    created_at: string;
    last_used_at: string | null;
  }
  interface SecretKeyPage {
    data: Array<SecretKey>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface SentMail {
    mail_id: string;
    state: "bounced" | "deferred" | "expired" | "failed" | "queued" | "sent" | "stored" | "suppressed";
  }
  interface SentMessages {
    ids: Array<string>;
  }
  interface SentRequest {
    headers: Record<string, string>;
    body: string | null;
  }
  interface ServerMetadata {
    issuer: string;
    jwks_uri: string;
    authorization_endpoint: string;
    token_endpoint: string;
    userinfo_endpoint: string;
    introspection_endpoint: string;
    revocation_endpoint: string;
    pushed_authorization_request_endpoint: string;
    registration_endpoint?: string | null;
    end_session_endpoint: string;
    backchannel_logout_supported: boolean;
    backchannel_logout_session_supported: boolean;
    dpop_signing_alg_values_supported: Array<string>;
    scopes_supported: Array<string>;
    response_types_supported: Array<string>;
    response_modes_supported: Array<string>;
    grant_types_supported: Array<string>;
    subject_types_supported: Array<string>;
    id_token_signing_alg_values_supported: Array<string>;
    token_endpoint_auth_methods_supported: Array<string>;
    token_endpoint_auth_signing_alg_values_supported: Array<string>;
    introspection_endpoint_auth_methods_supported: Array<string>;
    introspection_endpoint_auth_signing_alg_values_supported: Array<string>;
    revocation_endpoint_auth_methods_supported: Array<string>;
    revocation_endpoint_auth_signing_alg_values_supported: Array<string>;
    code_challenge_methods_supported: Array<string>;
    claims_supported: Array<string>;
    acr_values_supported: Array<string>;
    ui_locales_supported: Array<string>;
    authorization_response_iss_parameter_supported: boolean;
    claims_parameter_supported: boolean;
    request_parameter_supported: boolean;
    request_uri_parameter_supported: boolean;
    require_pushed_authorization_requests: boolean;
    client_id_metadata_document_supported: boolean;
  }
  interface ShownInvitation {
    invitation_id: string;
    email: string;
    role: "editor" | "owner" | "viewer";
    expires_at: string;
    token: string;
    link: string;
  }
  interface ShownKey {
    kid: string;
    state: "known" | "next" | "published" | "signing";
    source: "database" | "setting";
    created_at: string | null;
    signs_from: string | null;
    published_until: string | null;
  }
  interface ShownKeyPage {
    data: Array<ShownKey>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface ShownProfileTable {
    table_id: string | null;
    table: string | null;
    key: string | null;
  }
  interface ShownReference {
    table?: string;
    table_id?: string;
    key?: string;
    member?: boolean;
    on_delete: OnDelete;
  }
  interface ShownSecretKey {
    key_id: string;
    key: string;
    prefix: string;
    name: string;
    role: "editor" | "viewer";
    may_sign_in_members: boolean;
    created_at: string;
  }
  interface ShownUniqueKey {
    name: string;
    columns: Array<string>;
    ignore_case: boolean;
    nulls: "distinct" | "equal";
    where: Record<string, any> | null;
    state?: "building" | "failed";
    rows?: number;
    pairs?: Array<Array<string>>;
  }
  interface SignInCode {
    redirect_to: string;
    expires_in: number;
  }
  interface SignInMethods {
    password: boolean;
    email_code: boolean;
    email_link: boolean;
    passkey: boolean;
  }
  interface SignUpField {
    name: string;
    label: string;
    type: string;
    is_required: boolean;
  }
  interface SignUpRow {
    table: string;
    data?: Record<string, any>;
    guests?: boolean;
  }
  interface SignedIn {
    member_id: string;
    nickname: string | null;
    access_token: string;
    refresh_token: string;
  }
  interface SignedInGuest {
    member_id: string;
    access_token: string;
    refresh_token: string;
  }
  interface SignedInUser {
    user_id: string;
    email: string;
    access_token: string;
    refresh_token: string;
  }
  interface SignedOut {
    message: string;
    id: string;
    sessions: number;
  }
  interface SignedUrl {
    url: string;
    expires_at: string;
  }
  interface SkipStage {
    "$skip": number;
  }
  interface SocialLoginUrl {
    url: string;
    provider: string;
    expires_in: number;
  }
  interface SocialProvider {
    provider: string;
    kind: string;
    client_id: string;
    has_secret: boolean;
    scopes: Array<string>;
    client_ids: Array<string>;
    is_enabled: boolean;
    options: ProviderOptions;
    redirect_uri: string;
    created_at: string;
    updated_at: string;
  }
  interface SocialProviderPage {
    data: Array<SocialProvider>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface SortStage {
    "$sort": Record<string, 1 | -1>;
  }
  interface Source {
    event: "row.created" | "row.deleted" | "row.updated";
    table_id: string;
    fields: Array<string>;
    member_from?: string | null;
  }
  interface Span {
    step_id: string;
    parent_id: string | null;
    try: number;
    status: "cancelled" | "completed" | "failed" | "running" | "skipped" | "timeout";
    queued_at: string | null;
    started_at: string | null;
    finished_at: string | null;
    kind: "agent_turn" | "condition" | "function" | "tool" | "wait";
    label: string;
  }
  type Stage = MatchStage | GroupStage | SortStage | LimitStage | SkipStage | ProjectStage | AddFieldsStage | UnwindStage | LookupStage | UnionWithStage | CountStage;
  interface Stats {
    members: MemberStats;
    tables: number;
    rows: number;
    storage_bytes: number;
    traffic: TrafficStats;
  }
  interface StatsBucket {
    time: string;
    success: number;
    error: number;
    timeout: number;
    p50: number | null;
    p99: number | null;
  }
  interface Step {
    step_type: "agent" | "condition" | "function" | "merge" | "parallel";
    id?: string;
    name?: string;
    function_id?: string | null;
    function_version?: number | null;
    order?: number | null;
    on_error?: "continue" | "retry" | "stop";
    retry_count?: number | null;
    retry_delay?: number | null;
    input_mapping?: Record<string, any> | null;
    timeout_seconds?: number;
    condition?: Record<string, any> | null;
    on_true?: Array<string> | null;
    on_false?: Array<string> | null;
    branches?: Array<Branch> | null;
    sources?: Array<string> | null;
    mode?: "array" | "deep" | "object";
    items?: string | null;
    config?: AgentConfig | null;
  }
  interface StepRun {
    step_id: string;
    parent_id: string | null;
    index: number;
    order: number;
    step_type: "agent" | "condition" | "function" | "merge" | "parallel";
    name: string;
    status: "cancelled" | "completed" | "failed" | "running" | "skipped" | "timeout";
    attempt: number;
    try: number;
    function_id: string | null;
    function_version: number | null;
    function_execution_id: string | null;
    input: any;
    output: any;
    error: ExecutionError | null;
    queue_ms: number | null;
    duration: number | null;
    started_at: string | null;
    finished_at: string | null;
    is_hidden: boolean;
  }
  interface Storage {
    id: string;
    app_id: string;
    name: string;
    upload_access: "AppMember" | "Creator" | "Public" | "Secret";
    delete_access: "AppMember" | "Creator" | "Public" | "Secret";
    read_access: "AppMember" | "Creator" | "Public" | "Secret";
    list_access: "AppMember" | "Creator" | "Public" | "Secret" | null;
    allowed_mime_types: Array<string>;
    max_file_size: number | null;
    quota_bytes: number | null;
    file_count: number;
    used_bytes: number;
    reserved_bytes: number;
    created_at: string;
    updated_at: string;
    has_rules?: boolean;
  }
  interface StorageList {
    storages: Array<Storage>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface StorageRules {
    rules: FileRuleSet | null;
    level_rules: FileRuleSet;
    presets: Array<FilePreset>;
    warnings: Array<RuleWarning>;
    updated_at: string | null;
  }
  interface StoredEvent {
    id: string;
    event_type: string;
    version: number;
    timestamp: string;
    subject: string | null;
    member_id: string | null;
    actor: EventActor;
    data: Record<string, any>;
  }
  interface Suppression {
    address_hash: string;
    reason: "bounced" | "manual";
    created_at: string;
  }
  interface SuppressionPage {
    data: Array<Suppression>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface Table {
    id: string;
    app_id: string;
    title: string;
    schema: Record<string, ColumnDefinition>;
    is_active: boolean;
    access_level: AccessLevel;
    create_time: string;
    update_time: string;
    has_rules?: boolean;
    unique?: Array<ShownUniqueKey>;
    referenced_by?: Array<ReferencedBy>;
  }
  interface TableList {
    tables: Array<Table>;
  }
  interface TableResult {
    message: string;
    id: string;
  }
  interface TableRules {
    rules: RuleSet | null;
    level_rules: RuleSet;
    presets: Array<Preset>;
    warnings: Array<RuleWarning>;
    updated_at: string | null;
  }
  interface Team {
    team_id: string;
    name: string;
    slug: string | null;
    data: Record<string, any>;
    member_count: number;
    created_by: string | null;
    created_at: string;
  }
  interface TeamInvitation {
    team_invitation_id: string;
    email: string | null;
    roles: Array<string>;
    max_uses: number;
    uses: number;
    created_at: string;
    expires_at: string;
  }
  interface TeamInvitations {
    invitations: Array<TeamInvitation>;
  }
  interface TeamMember {
    member_id: string;
    nickname: string | null;
    roles: Array<string>;
    joined_at: string;
  }
  interface TeamMemberPage {
    data: Array<TeamMember>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface TeamPage {
    data: Array<Team>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface TeamSettings {
    members_create: boolean;
  }
  interface TestResult {
    success: boolean;
    delivery_id: string;
    event_id: string;
    status_code: number | null;
    duration_ms: number;
    error: string | null;
    response_excerpt: string | null;
  }
  interface Timeline {
    spans: Array<Span>;
  }
  interface TokenAnswer {
    access_token: string;
    token_type: string;
    expires_in: number;
    scope: string;
    refresh_token?: string | null;
    id_token?: string | null;
    cnf?: Record<string, string> | null;
  }
  interface TokenPair {
    access_token: string;
    refresh_token: string;
  }
  interface TotpFactor {
    created_at: string;
  }
  interface TotpInput {
    secret: string;
    uri: string;
    qr: string;
  }
  interface Traffic {
    requests: number;
    client_errors: number;
    errors: number;
  }
  interface TrafficStats {
    last_24h: Traffic;
    last_30d: Traffic;
    by_day: Array<DailyTraffic>;
  }
  interface Trash {
    tables: Array<TrashedTable>;
    columns: Array<TrashedColumn>;
  }
  interface TrashColumnResult {
    message: string;
    id: string;
    number: number;
    name: string;
  }
  interface TrashTableResult {
    message: string;
    id: string;
  }
  interface TrashedColumn {
    table_id: string;
    table_title: string;
    number: number;
    name: string;
    data_type: string;
    dropped_at: string;
    restorable_until: string;
  }
  interface TrashedTable {
    table_id: string;
    title: string;
    rows: number;
    dropped_at: string;
    restorable_until: string;
  }
  interface Trigger {
    id: string;
    function_id: string;
    type: "event" | "schedule";
    is_active: boolean;
    cron: string | null;
    timezone: string | null;
    next_run_at: string | null;
    events: Array<string> | null;
    table_id: string | null;
    storage_id: string | null;
    batch: boolean;
  }
  interface TriggerPage {
    data: Array<Trigger>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface Triggered {
    execution_id: string;
    status: "cancelled" | "completed" | "failed" | "pending" | "running" | "timeout";
    duplicate?: boolean;
  }
  interface UnionWith {
    table: string;
    pipeline?: Array<Record<string, any>>;
  }
  interface UnionWithStage {
    "$unionWith": UnionWith;
  }
  interface UniqueKeyList {
    unique: Array<ShownUniqueKey>;
  }
  interface UnlinkedIdentity {
    message: string;
    name: string;
  }
  interface UnwindOptions {
    path: string;
    includeArrayIndex?: string;
    preserveNullAndEmptyArrays?: boolean;
  }
  interface UnwindStage {
    "$unwind": string | UnwindOptions;
  }
  interface UpdatedRows {
    updated_count: number;
  }
  interface Upload {
    hash: string;
    size: number;
    exists: boolean;
    upload_url?: string | null;
    method?: string | null;
    headers?: Record<string, string> | null;
    expires_at?: string | null;
  }
  interface UploadList {
    uploads: Array<Upload>;
  }
  interface UploadPermit {
    file_id: string;
    upload_url: string;
    public_url: string;
    method: string;
    headers: Record<string, string>;
    expires_at: string;
  }
  interface UploadProgress {
    offset: number;
    length: number;
    expires_at: string;
  }
  interface UpsertedRow {
    id: string;
    data: Record<string, any>;
    created_at: string;
    created_by?: string | null;
    updated_at: string;
    expanded?: Record<string, any>;
    expanded_more?: Array<string>;
    counts?: Record<string, any>;
    sort?: string;
    created: boolean;
  }
  interface Usage {
    sites: number;
    functions: number;
    workflows: number;
    webhooks: number;
    by_day: Array<DayUsage>;
    plan: string | null;
    quotas: Array<QuotaUse>;
  }
  interface UsePart {
    column: string;
    kind: string;
  }
  interface User {
    user_id: string;
    email: string;
    is_active: boolean;
    created_at: string;
  }
  interface UserFactors {
    totp: TotpFactor | null;
    recovery_codes: RecoveryCodesLeft;
    passkeys: Array<Passkey>;
  }
  interface UserPreferences {
    preferences: Record<string, any>;
  }
  interface UserSession {
    session_id: string;
    user_agent: string | null;
    created_at: string;
    refreshed_at: string;
    expires_at: string;
    address: string | null;
    is_current: boolean;
  }
  interface UserSessions {
    sessions: Array<UserSession>;
  }
  interface Validation {
    is_valid: boolean;
    errors: Array<FieldError>;
    warnings: Array<string>;
    next_runs: Array<string>;
  }
  interface Variable {
    name: string;
    scope: "app" | "function";
    updated_at: string;
    updated_by: string | null;
  }
  interface VariableList {
    variables: Array<Variable>;
  }
  interface View {
    id: string;
    name: string;
    table_id: string;
    table: string;
    pipeline: Array<Stage>;
    params: Record<string, ViewParameter>;
    read: Record<string, any> | boolean | null;
    run_as: "app" | "caller";
    cache_seconds: number;
    description: string | null;
    created_at: string;
    updated_at: string;
  }
  interface ViewList {
    views: Array<View>;
  }
  interface ViewParameter {
    type: "array" | "boolean" | "date" | "int" | "number" | "string" | "uuid";
    default?: any;
    description?: string;
  }
  interface WebStorage {
    id: string;
    app_id: string;
    name: string;
    description: string;
    slug: string;
    promote_mode: "auto" | "manual";
    not_found_mode: NotFoundMode;
    clean_urls: boolean;
    retain: number;
    has_qa_password: boolean;
    url: string;
    qa_url: string;
    production_deployment_id: string | null;
    qa_deployment_id: string | null;
    file_count: number;
    total_size: number;
    created_at: string;
    updated_at: string;
  }
  interface WebStorageList {
    storages: Array<WebStorage>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface Webhook {
    id: string;
    app_id: string;
    name: string;
    description: string;
    url: string;
    event_types: Array<string>;
    table_ids: Array<string> | null;
    provider_app_id: string | null;
    client_id: string | null;
    headers: Record<string, string>;
    is_active: boolean;
    status: "active" | "arming" | "disabled" | "failing";
    disabled_reason: string | null;
    failing_since: string | null;
    timeout_seconds: number;
    max_in_flight: number;
    secret_prefix: string;
    previous_secret_expires_at: string | null;
    pending_count: number;
    last_success_at: string | null;
    last_failure_at: string | null;
    created_at: string;
    updated_at: string;
  }
  interface WebhookDetails {
    id: string;
    app_id: string;
    name: string;
    description: string;
    url: string;
    event_types: Array<string>;
    table_ids: Array<string> | null;
    provider_app_id: string | null;
    client_id: string | null;
    headers: Record<string, string>;
    is_active: boolean;
    status: "active" | "arming" | "disabled" | "failing";
    disabled_reason: string | null;
    failing_since: string | null;
    timeout_seconds: number;
    max_in_flight: number;
    secret_prefix: string;
    previous_secret_expires_at: string | null;
    pending_count: number;
    last_success_at: string | null;
    last_failure_at: string | null;
    created_at: string;
    updated_at: string;
    stats: WebhookStats;
  }
  interface WebhookHours {
    webhook_id: string;
    hours: Array<HourStats>;
  }
  interface WebhookPage {
    data: Array<Webhook>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface WebhookStats {
    pending: number;
    succeeded_24h: number;
    failed_24h: number;
    failed_count: number;
    p50_ms: number | null;
    p95_ms: number | null;
  }
  interface Where {
    "$and"?: Array<Where>;
    "$or"?: Array<Where>;
    "$not"?: Where;
  }
  interface Workflow {
    id: string;
    app_id: string;
    name: string;
    description: string;
    execution_type: "conditional" | "parallel" | "sequential";
    steps: Array<Step>;
    schedule_cron: string | null;
    schedule_timezone: string | null;
    next_run_at: string | null;
    timeout_seconds: number;
    max_retries: number;
    initial_input: Record<string, any>;
    is_active: boolean;
    max_concurrency: number;
    on_overlap: string;
    has_trigger: boolean;
    version: number;
    created_at: string;
    updated_at: string;
    last_execution: LastExecution | null;
  }
  interface WorkflowExecution {
    id: string;
    workflow_id: string;
    workflow_version: number;
    status: "cancelled" | "completed" | "failed" | "pending" | "running" | "timeout";
    trigger: Record<string, any>;
    input: any;
    output: any;
    error: ExecutionError | null;
    attempt: number;
    cancel_requested: boolean;
    failed_steps: number;
    progress: ExecutionProgress;
    created_at: string;
    started_at: string | null;
    finished_at: string | null;
    duration: number | null;
    deadline_at: string | null;
    request_id: string | null;
    is_hidden?: boolean;
  }
  interface WorkflowExecutionDetails {
    id: string;
    workflow_id: string;
    workflow_version: number;
    status: "cancelled" | "completed" | "failed" | "pending" | "running" | "timeout";
    trigger: Record<string, any>;
    input: any;
    output: any;
    error: ExecutionError | null;
    attempt: number;
    cancel_requested: boolean;
    failed_steps: number;
    progress: ExecutionProgress;
    created_at: string;
    started_at: string | null;
    finished_at: string | null;
    duration: number | null;
    deadline_at: string | null;
    request_id: string | null;
    is_hidden: boolean;
    steps: Array<StepRun>;
  }
  interface WorkflowExecutionPage {
    data: Array<WorkflowExecution>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface WorkflowPage {
    data: Array<Workflow>;
    total_count: number;
    limit: number;
    offset: number;
  }
  interface WorkflowTrigger {
    trigger_url: string;
    is_active: boolean;
    dedupe: Dedupe | null;
    methods: Array<"GET" | "POST" | "PUT">;
    created_at: string;
    last_called_at: string | null;
    previous_until: string | null;
  }
  interface Answers {
    "DELETE /v1/account/oauth/connections/{}": Disconnected;
    "DELETE /v1/apps/{}": Deleted;
    "DELETE /v1/apps/{}/account-settings/logo": Deleted;
    "DELETE /v1/apps/{}/ai-provider": DeletedAiProvider;
    "DELETE /v1/apps/{}/archive-schedule": Deleted;
    "DELETE /v1/apps/{}/archives/{}": Deleted;
    "DELETE /v1/apps/{}/branches/{}": Deleted;
    "DELETE /v1/apps/{}/dead-jobs/{}": DeadJobResult;
    "DELETE /v1/apps/{}/env/{}": DeletedVariable;
    "DELETE /v1/apps/{}/event-types/{}": DeletedType;
    "DELETE /v1/apps/{}/functions/{}": Deleted;
    "DELETE /v1/apps/{}/functions/{}/env/{}": DeletedVariable;
    "DELETE /v1/apps/{}/functions/{}/triggers/{}": Deleted;
    "DELETE /v1/apps/{}/invitations/{}": Deleted;
    "DELETE /v1/apps/{}/keys/public/{}": Deleted;
    "DELETE /v1/apps/{}/keys/secret/{}": Deleted;
    "DELETE /v1/apps/{}/mail-settings": DeletedMailSettings;
    "DELETE /v1/apps/{}/mail-templates/{}/{}": DeletedMailTemplate;
    "DELETE /v1/apps/{}/mail/suppressions/{}": DeletedSuppression;
    "DELETE /v1/apps/{}/members/invitations/{}": Deleted;
    "DELETE /v1/apps/{}/members/{}": MemberResult;
    "DELETE /v1/apps/{}/members/{}/consents/{}": Disconnected;
    "DELETE /v1/apps/{}/members/{}/factors": DeletedAccount;
    "DELETE /v1/apps/{}/members/{}/identities/{}": UnlinkedIdentity;
    "DELETE /v1/apps/{}/members/{}/sessions/{}": Deleted;
    "DELETE /v1/apps/{}/oauth/clients/{}": DeletedClient;
    "DELETE /v1/apps/{}/oauth/clients/{}/logo": DeletedClient;
    "DELETE /v1/apps/{}/oauth/grants/{}": Deleted;
    "DELETE /v1/apps/{}/oauth/scopes/{}": DeletedScope;
    "DELETE /v1/apps/{}/oauth/social/{}": DeletedProvider;
    "DELETE /v1/apps/{}/storages/files/{}": Deleted;
    "DELETE /v1/apps/{}/storages/webs/{}": Deleted;
    "DELETE /v1/apps/{}/storages/webs/{}/domains/{}": DomainDeleted;
    "DELETE /v1/apps/{}/tables/{}/unique/{}": TableResult;
    "DELETE /v1/apps/{}/teams/{}": DeletedTeam;
    "DELETE /v1/apps/{}/teams/{}/members/{}": RemovedTeamMember;
    "DELETE /v1/apps/{}/trash": EmptiedTrash;
    "DELETE /v1/apps/{}/trash/tables/{}": TrashTableResult;
    "DELETE /v1/apps/{}/trash/tables/{}/columns/{}": TrashColumnResult;
    "DELETE /v1/apps/{}/users/{}": Deleted;
    "DELETE /v1/apps/{}/views/{}": Deleted;
    "DELETE /v1/apps/{}/webhooks/{}": Deleted;
    "DELETE /v1/apps/{}/workflows/{}": Deleted;
    "DELETE /v1/apps/{}/workflows/{}/trigger": Deleted;
    "DELETE /v1/auth/factors/passkeys/{}": Deleted;
    "DELETE /v1/auth/factors/totp": Deleted;
    "DELETE /v1/auth/session": Deleted;
    "DELETE /v1/auth/sessions/{}": Deleted;
    "DELETE /v1/public/app-members/me": EndedAccount;
    "DELETE /v1/public/app-members/me/email": DeletedAccount;
    "DELETE /v1/public/app-members/me/identities/{}": UnlinkedIdentity;
    "DELETE /v1/public/app-members/me/passkeys/{}": DeletedPasskey;
    "DELETE /v1/public/app-members/me/sessions/{}": Deleted;
    "DELETE /v1/public/app-members/me/totp": DeletedAccount;
    "DELETE /v1/public/app-members/teams/{}": DeletedTeam;
    "DELETE /v1/public/app-members/teams/{}/invitations/{}": RevokedTeamInvitation;
    "DELETE /v1/public/app-members/teams/{}/members/{}": RemovedTeamMember;
    "DELETE /v1/public/realtime/channels/{}/presence": EndedPresence;
    "DELETE /v1/public/storages/files/{}/items/{}": Deleted;
    "DELETE /v1/public/storages/webs/{}/page-metas": PageMetaDeleted;
    "DELETE /v1/public/storages/webs/{}/page-metas/all": PageMetasDeleted;
    "DELETE /v1/public/tables/{}": TableResult;
    "DELETE /v1/public/tables/{}/columns/{}": ColumnResult;
    "DELETE /v1/public/tables/{}/data/by/{}/{}": DeletedRow;
    "DELETE /v1/public/tables/{}/data/{}": DeletedRow;
    "DELETE /v1/uploads/tus/{}": undefined;
    "GET /": string;
    "GET /.well-known/jwks.json": JwkSet;
    "GET /.well-known/oauth-authorization-server": ServerMetadata;
    "GET /.well-known/oauth-protected-resource/apps/{}": ProtectedResource;
    "GET /.well-known/oauth-protected-resource/mcp/{}": ProtectedResource;
    "GET /.well-known/openid-configuration": ServerMetadata;
    "GET /account/{}/logo": undefined;
    "GET /account/{}/preview": string;
    "GET /account/{}/{}": string;
    "GET /console": undefined;
    "GET /console/": undefined;
    "GET /console/assets/{}/{}": undefined;
    "GET /console/{}": undefined;
    "GET /docs": string;
    "GET /docs/fonts/{}": undefined;
    "GET /docs/guides": string;
    "GET /docs/guides/{}": string;
    "GET /docs/{}": undefined;
    "GET /files/{}/p/{}": undefined;
    "GET /files/{}/{}/{}": undefined;
    "GET /healthz": Alive;
    "GET /healthz/proxy": Passed;
    "GET /llms.txt": undefined;
    "GET /oauth/authorize": string;
    "GET /oauth/consent": string;
    "GET /oauth/end-session": string;
    "GET /oauth/userinfo": Record<string, any>;
    "GET /openapi.json": Record<string, any>;
    "GET /readyz": Ready;
    "GET /sdk/{}/{}": undefined;
    "GET /setup": undefined;
    "GET /setup/reset": string;
    "GET /v1/account/oauth/connections": ConnectionPage;
    "GET /v1/apps": AppPage;
    "GET /v1/apps/import/{}": AppImport;
    "GET /v1/apps/{}": App;
    "GET /v1/apps/{}/account-settings": AppAccountSettings;
    "GET /v1/apps/{}/ai-provider": AiProvider;
    "GET /v1/apps/{}/archive-schedule": ArchiveSchedule;
    "GET /v1/apps/{}/archives": AppArchiveList;
    "GET /v1/apps/{}/archives/{}": AppArchive;
    "GET /v1/apps/{}/attention": Attention;
    "GET /v1/apps/{}/audit-log": AuditEntryPage;
    "GET /v1/apps/{}/audit-log/targets": AuditTargets;
    "GET /v1/apps/{}/auth-settings": AuthSettings;
    "GET /v1/apps/{}/branches": AppBranchPage;
    "GET /v1/apps/{}/branches/{}": AppBranch;
    "GET /v1/apps/{}/branches/{}/diff": BranchDiff;
    "GET /v1/apps/{}/channels": ChannelPatterns;
    "GET /v1/apps/{}/dead-jobs": DeadJobPage;
    "GET /v1/apps/{}/env": VariableList;
    "GET /v1/apps/{}/event-types": KnownTypePage;
    "GET /v1/apps/{}/events": EventPage;
    "GET /v1/apps/{}/events/stream": undefined;
    "GET /v1/apps/{}/exposure": ExposureReport;
    "GET /v1/apps/{}/functions": FunctionPage;
    "GET /v1/apps/{}/functions/{}": Function;
    "GET /v1/apps/{}/functions/{}/draft": FunctionDraft;
    "GET /v1/apps/{}/functions/{}/env": VariableList;
    "GET /v1/apps/{}/functions/{}/executions": ExecutionPage;
    "GET /v1/apps/{}/functions/{}/executions/{}": ExecutionDetails;
    "GET /v1/apps/{}/functions/{}/logs": LogPage;
    "GET /v1/apps/{}/functions/{}/logs/stream": undefined;
    "GET /v1/apps/{}/functions/{}/stats": FunctionStats;
    "GET /v1/apps/{}/functions/{}/triggers": TriggerPage;
    "GET /v1/apps/{}/functions/{}/triggers/{}/failures": DeadJobPage;
    "GET /v1/apps/{}/functions/{}/versions": FunctionVersionPage;
    "GET /v1/apps/{}/functions/{}/versions/{}": FunctionVersionDetails;
    "GET /v1/apps/{}/functions/{}/versions/{}/source": FunctionSource;
    "GET /v1/apps/{}/invitations": InvitationPage;
    "GET /v1/apps/{}/keys/public": PublicKeyPage;
    "GET /v1/apps/{}/keys/secret": SecretKeyPage;
    "GET /v1/apps/{}/limits": AppLimits;
    "GET /v1/apps/{}/live-settings": LiveSettings;
    "GET /v1/apps/{}/live-streams": LiveStreams;
    "GET /v1/apps/{}/mail": MailPage;
    "GET /v1/apps/{}/mail-settings": MailSettings;
    "GET /v1/apps/{}/mail-templates": MailTemplates;
    "GET /v1/apps/{}/mail-templates/{}/{}": MailTemplate;
    "GET /v1/apps/{}/mail/suppressions": SuppressionPage;
    "GET /v1/apps/{}/mail/{}": Mail;
    "GET /v1/apps/{}/members": MemberPage;
    "GET /v1/apps/{}/members/invitations": MemberInvitationPage;
    "GET /v1/apps/{}/members/invitations/{}": MemberInvitation;
    "GET /v1/apps/{}/members/{}": MemberRecord;
    "GET /v1/apps/{}/members/{}/consents": ConnectionPage;
    "GET /v1/apps/{}/members/{}/export": undefined;
    "GET /v1/apps/{}/members/{}/identities": MemberIdentities;
    "GET /v1/apps/{}/members/{}/sessions": MemberSessions;
    "GET /v1/apps/{}/members/{}/teams": OwnTeams;
    "GET /v1/apps/{}/metrics": RequestMetrics;
    "GET /v1/apps/{}/oauth/clients": RegisteredClientPage;
    "GET /v1/apps/{}/oauth/clients/{}": RegisteredClient;
    "GET /v1/apps/{}/oauth/grants": IssuedGrantPage;
    "GET /v1/apps/{}/oauth/keys": ShownKeyPage;
    "GET /v1/apps/{}/oauth/scopes": ApiScopePage;
    "GET /v1/apps/{}/oauth/settings": OAuthSettings;
    "GET /v1/apps/{}/oauth/social": SocialProviderPage;
    "GET /v1/apps/{}/profiles": ShownProfileTable;
    "GET /v1/apps/{}/requests": RequestEntryPage;
    "GET /v1/apps/{}/requests/{}": RequestContext;
    "GET /v1/apps/{}/runtime": RuntimeStates;
    "GET /v1/apps/{}/stats": Stats;
    "GET /v1/apps/{}/storages/files": StorageList;
    "GET /v1/apps/{}/storages/files/{}": Storage;
    "GET /v1/apps/{}/storages/files/{}/rules": StorageRules;
    "GET /v1/apps/{}/storages/webs": WebStorageList;
    "GET /v1/apps/{}/storages/webs/{}": WebStorage;
    "GET /v1/apps/{}/storages/webs/{}/deploy/manifest": Manifest;
    "GET /v1/apps/{}/storages/webs/{}/deployments": DeploymentList;
    "GET /v1/apps/{}/storages/webs/{}/deployments/{}": Deployment;
    "GET /v1/apps/{}/storages/webs/{}/domains": DomainList;
    "GET /v1/apps/{}/tables/{}/export": undefined;
    "GET /v1/apps/{}/tables/{}/imports/{}": ImportProgress;
    "GET /v1/apps/{}/tables/{}/indexes": IndexList;
    "GET /v1/apps/{}/tables/{}/rules": TableRules;
    "GET /v1/apps/{}/tables/{}/unique": UniqueKeyList;
    "GET /v1/apps/{}/team-settings": TeamSettings;
    "GET /v1/apps/{}/teams": TeamPage;
    "GET /v1/apps/{}/teams/{}": Team;
    "GET /v1/apps/{}/teams/{}/members": TeamMemberPage;
    "GET /v1/apps/{}/trash": Trash;
    "GET /v1/apps/{}/usage": Usage;
    "GET /v1/apps/{}/users": AppUserPage;
    "GET /v1/apps/{}/views": ViewList;
    "GET /v1/apps/{}/views/{}": View;
    "GET /v1/apps/{}/webhook-stats": AllStats;
    "GET /v1/apps/{}/webhooks": WebhookPage;
    "GET /v1/apps/{}/webhooks/{}": WebhookDetails;
    "GET /v1/apps/{}/webhooks/{}/logs": DeliveryPage;
    "GET /v1/apps/{}/webhooks/{}/logs/{}": DeliveryDetails;
    "GET /v1/apps/{}/workflows": WorkflowPage;
    "GET /v1/apps/{}/workflows/{}": Workflow;
    "GET /v1/apps/{}/workflows/{}/executions": WorkflowExecutionPage;
    "GET /v1/apps/{}/workflows/{}/executions/stream": undefined;
    "GET /v1/apps/{}/workflows/{}/executions/{}": WorkflowExecutionDetails;
    "GET /v1/apps/{}/workflows/{}/executions/{}/stream": undefined;
    "GET /v1/apps/{}/workflows/{}/executions/{}/timeline": Timeline;
    "GET /v1/apps/{}/workflows/{}/trigger": WorkflowTrigger;
    "GET /v1/apps/{}/workflows/{}/versions/{}": Workflow;
    "GET /v1/archives/{}": undefined;
    "GET /v1/auth/audit-log": AuditEntryPage;
    "GET /v1/auth/factors": UserFactors;
    "GET /v1/auth/logout": Confirmation;
    "GET /v1/auth/me": User;
    "GET /v1/auth/me/preferences": UserPreferences;
    "GET /v1/auth/sessions": UserSessions;
    "GET /v1/console/config": ConsoleConfig;
    "GET /v1/exports/{}": undefined;
    "GET /v1/integrations/providers/{}/event-catalog": EventCatalog;
    "GET /v1/oauth/consent/info": ConsentInfo;
    "GET /v1/public/account-settings": PublicAccountSettings;
    "GET /v1/public/app-members/invitations/{}": InvitedTo;
    "GET /v1/public/app-members/me": CurrentMember;
    "GET /v1/public/app-members/me/account": Account;
    "GET /v1/public/app-members/me/factors": OwnFactors;
    "GET /v1/public/app-members/me/identities": MemberIdentities;
    "GET /v1/public/app-members/me/sessions": DeviceSessions;
    "GET /v1/public/app-members/teams": OwnTeams;
    "GET /v1/public/app-members/teams/{}": OwnTeam;
    "GET /v1/public/app-members/teams/{}/invitations": TeamInvitations;
    "GET /v1/public/app-members/teams/{}/members": TeamMemberPage;
    "GET /v1/public/auth-settings": AuthSettings;
    "GET /v1/public/oauth/clients/{}/login-options": LoginOptions;
    "GET /v1/public/oauth/clients/{}/logo": undefined;
    "GET /v1/public/oauth/clients/{}/social-login-url": SocialLoginUrl;
    "GET /v1/public/oauth/{}/callback": string;
    "GET /v1/public/realtime/streams/{}": undefined;
    "GET /v1/public/stats": Stats;
    "GET /v1/public/storages/files/{}/items": ItemList;
    "GET /v1/public/storages/files/{}/path/{}": FileItem | FolderContents;
    "GET /v1/public/storages/webs": WebStorageList;
    "GET /v1/public/storages/webs/{}/deploy/manifest": Manifest;
    "GET /v1/public/storages/webs/{}/deployments": DeploymentList;
    "GET /v1/public/storages/webs/{}/page-metas": PageMetaList;
    "GET /v1/public/storages/webs/{}/page-metas/get": PageMeta;
    "GET /v1/public/tables": TableList;
    "GET /v1/public/tables/{}": Table;
    "GET /v1/public/tables/{}/columns": ColumnList;
    "GET /v1/public/tables/{}/data": RowPage;
    "GET /v1/public/tables/{}/data/by/{}/{}": Row;
    "GET /v1/public/tables/{}/data/{}": Row;
    "GET /v1/public/views/{}": AggregateResult;
    "GET /v1/sites/ask": AskAnswer;
    "GET /v1/triggers/{}": Triggered;
    "GET /v1/uploads/tus/{}": UploadProgress;
    "PATCH /v1/apps/{}": App;
    "PATCH /v1/apps/{}/account-settings": AppAccountSettings;
    "PATCH /v1/apps/{}/functions/{}": Function;
    "PATCH /v1/apps/{}/functions/{}/env": VariableList;
    "PATCH /v1/apps/{}/functions/{}/triggers/{}": Trigger;
    "PATCH /v1/apps/{}/keys/public/{}": PublicKey;
    "PATCH /v1/apps/{}/limits": AppLimits;
    "PATCH /v1/apps/{}/members/{}": MemberRecord;
    "PATCH /v1/apps/{}/storages/files/{}": Storage;
    "PATCH /v1/apps/{}/storages/files/{}/items/{}": FileItem | FolderItem;
    "PATCH /v1/apps/{}/storages/webs/{}": WebStorage;
    "PATCH /v1/apps/{}/teams/{}": Team;
    "PATCH /v1/apps/{}/users/{}": AppUser;
    "PATCH /v1/apps/{}/views/{}": View;
    "PATCH /v1/apps/{}/workflows/{}": Workflow;
    "PATCH /v1/apps/{}/workflows/{}/trigger": WorkflowTrigger;
    "PATCH /v1/public/app-members/me": CurrentMember;
    "PATCH /v1/public/app-members/me/custom-data": CustomDataResult;
    "PATCH /v1/public/app-members/me/passkeys/{}": Passkey;
    "PATCH /v1/public/app-members/me/password": Confirmation;
    "PATCH /v1/public/app-members/teams/{}": OwnTeam;
    "PATCH /v1/public/app-members/teams/{}/members/{}": TeamMember;
    "PATCH /v1/public/tables/{}": TableResult;
    "PATCH /v1/public/tables/{}/columns/{}": ColumnResult;
    "PATCH /v1/public/tables/{}/data/by/{}/{}": Row;
    "PATCH /v1/public/tables/{}/data/{}": Row;
    "PATCH /v1/uploads/tus/{}": undefined;
    "PATCH /v1/users/{}": User;
    "POST /oauth/authorize": string;
    "POST /oauth/consent/session": ConsentSession;
    "POST /oauth/end-session": string;
    "POST /oauth/introspect": Introspection;
    "POST /oauth/par": PushedAnswer;
    "POST /oauth/register": Record<string, any>;
    "POST /oauth/revoke": string;
    "POST /oauth/token": TokenAnswer;
    "POST /oauth/userinfo": Record<string, any>;
    "POST /v1/apps": CreatedApp;
    "POST /v1/apps/import": AppImport;
    "POST /v1/apps/{}/archives": AppArchive;
    "POST /v1/apps/{}/archives/{}/link": ArchiveLink;
    "POST /v1/apps/{}/branches": AppBranch;
    "POST /v1/apps/{}/branches/{}/merge": Merged;
    "POST /v1/apps/{}/dead-jobs/retry": RetriedJobs;
    "POST /v1/apps/{}/dead-jobs/{}/retry": DeadJobResult;
    "POST /v1/apps/{}/functions": Function;
    "POST /v1/apps/{}/functions/{}/invoke": ConsoleInvocationResult;
    "POST /v1/apps/{}/functions/{}/triggers": Trigger;
    "POST /v1/apps/{}/functions/{}/triggers/{}/failures/{}/retry": DeadJobResult;
    "POST /v1/apps/{}/functions/{}/versions": FunctionVersion;
    "POST /v1/apps/{}/functions/{}/versions/{}/activate": Function;
    "POST /v1/apps/{}/invitations": ShownInvitation;
    "POST /v1/apps/{}/keys/public": PublicKey;
    "POST /v1/apps/{}/keys/secret": ShownSecretKey;
    "POST /v1/apps/{}/mail-settings/test": MailTest;
    "POST /v1/apps/{}/mail-templates/{}/{}/preview": MailPreview;
    "POST /v1/apps/{}/mail/send": SentMail;
    "POST /v1/apps/{}/mail/suppressions": Suppression;
    "POST /v1/apps/{}/mail/{}/retry": MailItem;
    "POST /v1/apps/{}/members": MemberRecord;
    "POST /v1/apps/{}/members/import": ImportedMembers;
    "POST /v1/apps/{}/members/invitations": MemberInvitation;
    "POST /v1/apps/{}/members/{}/impersonate": ImpersonationToken;
    "POST /v1/apps/{}/members/{}/mail-reset": Confirmation;
    "POST /v1/apps/{}/members/{}/sign-in-code": MemberSignInCode;
    "POST /v1/apps/{}/members/{}/sign-out-everywhere": SignedOut;
    "POST /v1/apps/{}/members/{}/token": MemberToken;
    "POST /v1/apps/{}/oauth/clients": CreatedClient;
    "POST /v1/apps/{}/oauth/clients/{}/regenerate-secret": RegeneratedSecret;
    "POST /v1/apps/{}/oauth/keys": ShownKey;
    "POST /v1/apps/{}/restore": App;
    "POST /v1/apps/{}/storages/files": Storage;
    "POST /v1/apps/{}/storages/files/{}/rules/test": FileRuleTestResult;
    "POST /v1/apps/{}/storages/webs": WebStorage;
    "POST /v1/apps/{}/storages/webs/{}/deploy": DeployResult;
    "POST /v1/apps/{}/storages/webs/{}/deploy/incremental": IncrementalResult;
    "POST /v1/apps/{}/storages/webs/{}/deploy/presign": UploadList;
    "POST /v1/apps/{}/storages/webs/{}/domains": Domain;
    "POST /v1/apps/{}/storages/webs/{}/domains/{}/verify": Domain;
    "POST /v1/apps/{}/storages/webs/{}/promote": Promotion;
    "POST /v1/apps/{}/tables/{}/columns/{}/rename": ColumnResult;
    "POST /v1/apps/{}/tables/{}/export-link": ExportLink;
    "POST /v1/apps/{}/tables/{}/import": ImportResult;
    "POST /v1/apps/{}/tables/{}/rules/test": RuleTestResult;
    "POST /v1/apps/{}/tables/{}/schema-preview": SchemaPreview;
    "POST /v1/apps/{}/tables/{}/unique": ShownUniqueKey;
    "POST /v1/apps/{}/teams": Team;
    "POST /v1/apps/{}/trash/tables/{}/columns/{}/restore": TrashColumnResult;
    "POST /v1/apps/{}/trash/tables/{}/restore": TrashTableResult;
    "POST /v1/apps/{}/views": View;
    "POST /v1/apps/{}/webhooks": CreatedWebhook;
    "POST /v1/apps/{}/webhooks/{}/logs/{}/redeliver": Delivery;
    "POST /v1/apps/{}/webhooks/{}/recover": Recovered;
    "POST /v1/apps/{}/webhooks/{}/regenerate-secret": RotatedSecret;
    "POST /v1/apps/{}/webhooks/{}/test": TestResult;
    "POST /v1/apps/{}/workflows": Workflow;
    "POST /v1/apps/{}/workflows/validate": Validation;
    "POST /v1/apps/{}/workflows/{}/execute": Accepted;
    "POST /v1/apps/{}/workflows/{}/executions/{}/cancel": WorkflowExecutionDetails;
    "POST /v1/apps/{}/workflows/{}/executions/{}/replay": Accepted;
    "POST /v1/apps/{}/workflows/{}/trigger": WorkflowTrigger;
    "POST /v1/apps/{}/workflows/{}/trigger/rotate": WorkflowTrigger;
    "POST /v1/auth/factors/passkeys": Passkey;
    "POST /v1/auth/factors/passkeys/start": PasskeyChallenge;
    "POST /v1/auth/factors/recovery-codes": RecoveryCodesInput;
    "POST /v1/auth/factors/totp": TotpInput;
    "POST /v1/auth/factors/totp/confirm": RecoveryCodesInput;
    "POST /v1/auth/logout": Confirmation;
    "POST /v1/auth/oauth/exchange": Exchanged;
    "POST /v1/auth/passkey-sign-in": SignedInUser;
    "POST /v1/auth/passkey-sign-in/start": PasskeyChallenge;
    "POST /v1/auth/password-reset": SignedInUser;
    "POST /v1/auth/password-reset/request": Confirmation;
    "POST /v1/auth/re-issue": TokenPair;
    "POST /v1/auth/reauthenticate": Reproved;
    "POST /v1/auth/second-factor": SignedInUser;
    "POST /v1/auth/session": ConsoleSession;
    "POST /v1/auth/session/passkey": ConsoleSession;
    "POST /v1/auth/session/refresh": ConsoleSession;
    "POST /v1/auth/session/second-factor": ConsoleSession;
    "POST /v1/auth/signin": SignedInUser;
    "POST /v1/auth/signup": SignedInUser;
    "POST /v1/integrations/events": PublishedEvent | PublishedEvents;
    "POST /v1/invitations/accept": AcceptedInvitation;
    "POST /v1/oauth/consent/approve": Approved;
    "POST /v1/oauth/consent/deny": Denied;
    "POST /v1/public/aggregate": AggregateResult;
    "POST /v1/public/app-members": SignedInGuest;
    "POST /v1/public/app-members/email-sign-in": EmailTicket;
    "POST /v1/public/app-members/email-sign-in/confirm": SignedIn;
    "POST /v1/public/app-members/email-undo": Confirmation;
    "POST /v1/public/app-members/email-verification": Confirmation;
    "POST /v1/public/app-members/email-verification/deny": Confirmation;
    "POST /v1/public/app-members/export/download": undefined;
    "POST /v1/public/app-members/id-token-sign-in": SignedIn;
    "POST /v1/public/app-members/invitations/accept": OwnTeam;
    "POST /v1/public/app-members/invitations/read": InvitedAddress;
    "POST /v1/public/app-members/me/email": EmailTicket;
    "POST /v1/public/app-members/me/email/confirm": Account;
    "POST /v1/public/app-members/me/export": ExportTicket;
    "POST /v1/public/app-members/me/passkeys": Passkey;
    "POST /v1/public/app-members/me/passkeys/start": PasskeyChallenge;
    "POST /v1/public/app-members/me/reauthenticate": Reauthenticated;
    "POST /v1/public/app-members/me/reauthenticate/start": ReauthenticationTicket;
    "POST /v1/public/app-members/me/recovery-codes": RecoveryCodesInput;
    "POST /v1/public/app-members/me/restore": Account;
    "POST /v1/public/app-members/me/sessions/end-others": EndedSessions;
    "POST /v1/public/app-members/me/sign-in-code": SignInCode;
    "POST /v1/public/app-members/me/totp": TotpInput;
    "POST /v1/public/app-members/me/totp/confirm": RecoveryCodesInput;
    "POST /v1/public/app-members/passkey-sign-in": SignedIn;
    "POST /v1/public/app-members/passkey-sign-in/start": PasskeyChallenge;
    "POST /v1/public/app-members/password-reset": Confirmation;
    "POST /v1/public/app-members/password-reset/confirm": Confirmation;
    "POST /v1/public/app-members/second-factor": SignedIn;
    "POST /v1/public/app-members/second-factor/start": SecondFactorStart;
    "POST /v1/public/app-members/signin": SignedIn;
    "POST /v1/public/app-members/signout": Confirmation;
    "POST /v1/public/app-members/signup": SignedIn;
    "POST /v1/public/app-members/teams": OwnTeam;
    "POST /v1/public/app-members/teams/{}/invitations": CreatedTeamInvitation;
    "POST /v1/public/autocomplete": AutocompleteResult;
    "POST /v1/public/batch": OperationResults;
    "POST /v1/public/challenges": Puzzle;
    "POST /v1/public/functions/{}/invoke": InvocationResult;
    "POST /v1/public/geo": GeoResult;
    "POST /v1/public/oauth/{}/callback": string;
    "POST /v1/public/realtime": undefined;
    "POST /v1/public/realtime/channels/{}/messages": SentMessages;
    "POST /v1/public/realtime/tickets": LiveTicket;
    "POST /v1/public/search": SearchResult;
    "POST /v1/public/storages/files/{}/complete-upload": FileItem;
    "POST /v1/public/storages/files/{}/folders": FolderItem;
    "POST /v1/public/storages/files/{}/items/{}/signed-url": SignedUrl;
    "POST /v1/public/storages/files/{}/presigned-url": UploadPermit;
    "POST /v1/public/storages/files/{}/presigned-url/path/{}": UploadPermit;
    "POST /v1/public/storages/files/{}/tus": UploadPermit;
    "POST /v1/public/storages/webs": WebStorage;
    "POST /v1/public/storages/webs/{}/deploy": DeployResult;
    "POST /v1/public/storages/webs/{}/deploy/incremental": IncrementalResult;
    "POST /v1/public/storages/webs/{}/deploy/presign": UploadList;
    "POST /v1/public/storages/webs/{}/page-metas/batch": PageMetaBatchResult;
    "POST /v1/public/storages/webs/{}/promote": Promotion;
    "POST /v1/public/tables": TableResult;
    "POST /v1/public/tables/{}/columns": ColumnResult;
    "POST /v1/public/tables/{}/data": Row;
    "POST /v1/public/tables/{}/data/bulk": BulkResult;
    "POST /v1/public/tables/{}/data/delete-where": DeletedRows;
    "POST /v1/public/tables/{}/data/query": QueryResult;
    "POST /v1/public/tables/{}/data/update-where": UpdatedRows;
    "POST /v1/public/tables/{}/data/upsert": UpsertedRow;
    "POST /v1/public/transactions": OperationResults;
    "POST /v1/public/views/{}": AggregateResult;
    "POST /v1/triggers/{}": Triggered;
    "PUT /v1/apps/{}/account-settings/logo": AppAccountSettings;
    "PUT /v1/apps/{}/ai-provider": AiProvider;
    "PUT /v1/apps/{}/archive-schedule": ArchiveSchedule;
    "PUT /v1/apps/{}/auth-settings": AuthSettings;
    "PUT /v1/apps/{}/channels": ChannelPatterns;
    "PUT /v1/apps/{}/env/{}": Variable;
    "PUT /v1/apps/{}/event-types/{}": DeclaredType;
    "PUT /v1/apps/{}/functions/{}/draft": FunctionVersion;
    "PUT /v1/apps/{}/functions/{}/env/{}": Variable;
    "PUT /v1/apps/{}/live-settings": LiveSettings;
    "PUT /v1/apps/{}/mail-settings": MailSettings;
    "PUT /v1/apps/{}/mail-templates/{}/{}": MailTemplate;
    "PUT /v1/apps/{}/members/{}/password": SignedOut;
    "PUT /v1/apps/{}/oauth/clients/{}": RegisteredClient;
    "PUT /v1/apps/{}/oauth/clients/{}/logo": RegisteredClient;
    "PUT /v1/apps/{}/oauth/scopes/{}": ApiScope;
    "PUT /v1/apps/{}/oauth/settings": OAuthSettings;
    "PUT /v1/apps/{}/oauth/social/{}": SocialProvider;
    "PUT /v1/apps/{}/profiles": ShownProfileTable;
    "PUT /v1/apps/{}/storages/files/{}/rules": StorageRules;
    "PUT /v1/apps/{}/tables/{}/rules": TableRules;
    "PUT /v1/apps/{}/team-settings": TeamSettings;
    "PUT /v1/apps/{}/teams/{}/members/{}": TeamMember;
    "PUT /v1/apps/{}/webhooks/{}": Webhook;
    "PUT /v1/apps/{}/workflows/{}": Workflow;
    "PUT /v1/auth/me/password": User;
    "PUT /v1/auth/me/preferences": UserPreferences;
    "PUT /v1/public/app-members/me/password": Confirmation;
    "PUT /v1/public/realtime/channels/{}/presence": PresenceResult;
    "PUT /v1/public/storages/webs/{}/page-metas": PageMeta;
    "PUT /v1/triggers/{}": Triggered;
    "PUT /v1/uploads/sites/{}": ReceivedContent;
    "PUT /v1/uploads/{}": ReceivedUpload;
  }
  type Segment<S extends string> = string extends S ? "{}" : S;
  type Route<P extends string> = P extends `${infer First}/${infer Rest}`
    ? `${Segment<First>}/${Route<Rest>}`
    : Segment<P>;
  /** What a request with a method to a path answers. */
  type Answer<M extends string, P extends string> = `${M} ${Route<P>}` extends infer R
    ? R extends keyof Answers
      ? Answers[R]
      : any
    : never;
}
