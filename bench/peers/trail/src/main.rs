//! `trail --data-dir DIRECTORY run --address HOST:PORT`: the arguments of TrailBase's own program.

use trailbase::{DataDir, Server, ServerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, _, directory, _, _, address] = &arguments[..] else {
        return Err("Usage: trail --data-dir DIRECTORY run --address HOST:PORT".into());
    };
    let options = ServerOptions {
        data_dir: DataDir(directory.into()),
        address: address.clone(),
        admin_address: None,
        public_dir: None,
        geoip_db_path: None,
        log_responses: false,
        dev: false,
        demo: false,
        disable_auth_ui: true,
        cors_allowed_origins: vec!["*".into()],
        js_runtime_threads: Some(1),
        tls_cert: None,
        tls_key: None,
    };
    Server::init(options).await?.serve().await
}
