//! The doors that a configuration asks for.

use std::io::ErrorKind;

use anyhow::anyhow;
use hub::{Address, Bound, Hub, Listener, StartError, TlsSource, WebDoor};

use super::config::Listen;

/// A door of MQTT with its socket bound, and how clients name it.
pub(crate) struct Opened {
    pub(crate) door: Bound,
    pub(crate) url: String,
}

/// Binds all doors of MQTT.
pub(crate) fn bind(listen: &Listen, tls: Option<&TlsSource>) -> anyhow::Result<Vec<Opened>> {
    let web = Some(WebDoor {
        origins: listen.websocket_origins.iter().cloned().map(String::from).collect(),
    });
    let kinds = [
        (&listen.mqtt, "mqtt", &None, None),
        (&listen.mqtts, "mqtts", &None, tls),
        (&listen.mqtt_ws, "ws", &web, None),
        (&listen.mqtt_wss, "wss", &web, tls),
    ];
    let mut opened = Vec::new();
    for (addresses, scheme, websocket, tls) in kinds {
        for address in addresses {
            let listener = Listener {
                address: Address::Tcp(*address),
                tls: tls.cloned(),
                websocket: websocket.clone(),
                proxy_protocol: listen.proxy_protocol,
            };
            opened.push(bind_one(listener, scheme)?);
        }
    }
    for path in &listen.mqtt_unix {
        let listener = Listener {
            address: Address::Unix(path.clone()),
            tls: None,
            websocket: None,
            proxy_protocol: false,
        };
        opened.push(bind_one(listener, "mqtt+unix")?);
    }
    Ok(opened)
}

/// Lets clients come in.
pub(crate) async fn open(hub: &Hub, opened: Vec<Opened>) -> anyhow::Result<()> {
    let doors = opened.into_iter().map(|opened| opened.door).collect();
    hub.open(doors).await.map_err(in_words)
}

fn in_words(error: StartError) -> anyhow::Error {
    match error {
        StartError::Bind { address, source } => anyhow!("{}", refusal(&address.to_string(), &source)),
        other => other.into(),
    }
}

fn bind_one(listener: Listener, scheme: &str) -> anyhow::Result<Opened> {
    let is_web = listener.websocket.is_some();
    let door = Bound::new(listener).map_err(in_words)?;
    let path = if is_web { "/mqtt" } else { "" };
    let url = format!("{scheme}://{}{path}", door.local_address());
    Ok(Opened { door, url })
}

/// Binds the doors of HTTP, without TLS and with it.
pub(crate) async fn bind_http(listen: &Listen, tls: Option<&TlsSource>) -> anyhow::Result<Vec<api::Door>> {
    let plain = listen.http.iter().map(|address| (address, None));
    let secure = listen.https.iter().map(|address| (address, tls.cloned()));
    let mut doors = Vec::new();
    for (address, tls) in plain.chain(secure) {
        let door = api::Door::tcp(*address, tls).await;
        doors.push(door.map_err(|error| anyhow!("{}", refusal(&address.to_string(), &error)))?);
    }
    Ok(doors)
}

/// Why an address cannot be listened at, and what would be right.
pub(super) fn refusal(address: &str, error: &std::io::Error) -> String {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => {
            "is in use by another program (ss -ltnp shows which); stop that or choose another address"
        }
        ErrorKind::AddrNotAvailable => "is no address of this machine; 0.0.0.0 stands for all that it has",
        ErrorKind::PermissionDenied => "may not be listened at; choose a port from 1024 on, or a directory of your own",
        _ => return format!("{address}: {error}"),
    };
    format!("{address} {hint}")
}
