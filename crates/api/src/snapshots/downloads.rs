//! Snapshots are given out as archives, to users who download them.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use agent::snapshot::{Error, Kept, Snapshots};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use futures_util::stream;
use tokio::sync::mpsc;

use super::all;
use crate::desk::Desk;
use crate::doors::Patience;
use crate::wrong::{Done, Wrong};

/// Of an archive on its way, so many at once.
const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS: usize = 4;
/// Archives that are on their way at once: each has a thread.
pub(super) const DOWNLOADS_MAX: usize = 4;
/// One may take so long.
const DOWNLOAD: Duration = Duration::from_secs(6 * 3_600);

/// The archive of a snapshot, an OCI image layout as one file (`tar`).
#[utoipa::path(get, path = "/v1/tenants/{tenant}/snapshots/{name}/archive", tag = "snapshots",
    operation_id = "download_snapshot",
    responses((status = 200, body = String, content_type = "application/x-tar")))]
pub(crate) async fn download(
    State(desk): State<Arc<Desk>>,
    patience: Option<Extension<Patience>>,
    Path((tenant, name)): Path<(String, String)>,
) -> Done<impl IntoResponse> {
    desk.check_tenant(&tenant).await?;
    let found = all(&desk)
        .await?
        .into_iter()
        .find(|kept| kept.tenant == tenant && kept.name == name);
    let kept = found.ok_or_else(|| Wrong::from(Error::Absent { tenant, name }))?;
    archive(&desk, kept, patience)
}

/// The archive of the latest snapshot of an application.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/deployments/{name}/snapshots/latest/archive", tag = "snapshots",
    operation_id = "download_latest_snapshot",
    responses((status = 200, body = String, content_type = "application/x-tar")))]
pub(crate) async fn download_latest(
    State(desk): State<Arc<Desk>>,
    patience: Option<Extension<Patience>>,
    Path((tenant, name)): Path<(String, String)>,
) -> Done<impl IntoResponse> {
    desk.check_tenant(&tenant).await?;
    let all = all(&desk).await?;
    let is_of = |kept: &Kept| kept.tenant == tenant && kept.about.application == name;
    let latest = all.into_iter().rfind(is_of);
    let kept = latest.ok_or_else(|| Wrong::absent(format!("no snapshot of {name:?} in tenant {tenant}")))?;
    archive(&desk, kept, patience)
}

fn archive(desk: &Desk, kept: Kept, patience: Option<Extension<Patience>>) -> Done<impl IntoResponse + use<>> {
    let turn = Arc::clone(&desk.snapshots.downloads).try_acquire_owned().map_err(|_| {
        let message = format!("{DOWNLOADS_MAX} archives are being downloaded, and no more at once; try again");
        Wrong::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(60)
    })?;
    if let Some(Extension(patience)) = patience {
        patience.extend_to(DOWNLOAD);
    }
    let (chunks, receiver) = mpsc::channel(CHUNKS);
    let data = desk.snapshots.data.clone();
    let file = format!("attachment; filename=\"{}.tar\"", kept.name);
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let mut out = io::BufWriter::with_capacity(CHUNK_BYTES, Chunks(chunks.clone()));
        let written = Snapshots::open(&data).and_then(|snapshots| snapshots.export(&kept, &mut out));
        if let Err(error) = written {
            // Whoever downloads it sees that it is cut off.
            let _ = chunks.blocking_send(Err(io::Error::other(error.to_string())));
        }
    });
    let body = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    let disposition = HeaderValue::from_str(&file).unwrap_or(HeaderValue::from_static("attachment"));
    Ok((
        [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/x-tar")),
            (header::CONTENT_DISPOSITION, disposition),
        ],
        Body::from_stream(body),
    ))
}

/// What is written is sent on.
struct Chunks(mpsc::Sender<io::Result<Bytes>>);

impl Write for Chunks {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(content)));
        match sent {
            Ok(()) => Ok(content.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
