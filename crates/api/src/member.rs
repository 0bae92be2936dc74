//! An edge in a cloud, or a node in a site: it gets its first certificate for a token, and each further one for the one
//! before.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64ct::{Base64, Encoding};
use identity::{
    CertificateError, EdgeKey, EdgeKeyError, Fingerprint, JoinToken, Membership, MembershipError, TlsError,
    certificate_end, pinned_config,
};
use link::edge::{Proxies, Target, WrongTarget};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::Notify;

use crate::clients::date_time;
use crate::cloud_client::{CloudClient, CloudError};
use crate::enrolment::{AuthorityInfo, Grant, Join, Renew};
use crate::joining::JoinCloud;
use crate::unix_now_s;

/// How often the date of the certificate is looked at. Clocks are set, and machines sleep: no timer would tell.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The first pause after a renewal that failed, at most; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Why an edge did not join, or did not renew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemberError {
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(
        "{place} is not the cloud that made this token: its authority is {found}, that of the token is {wanted}; is \
         the URL right?"
    )]
    OtherCloud {
        place: String,
        found: Fingerprint,
        wanted: Fingerprint,
    },
    #[error("the cloud gave a certificate that is none: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the cloud says that links go to {said:?}: {source}")]
    LinkUrl { said: String, source: WrongTarget },
    #[error("{0}")]
    CloudUrl(#[from] WrongTarget),
    #[error(transparent)]
    Key(#[from] EdgeKeyError),
    #[error(transparent)]
    Membership(#[from] MembershipError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
}

/// Where the membership of an edge in a site is: this directory in that of its data.
pub const SITE_DIRECTORY: &str = "site";

/// An edge as a member of a cloud or a site, or one that may become it.
pub struct Member {
    data: PathBuf,
    proxies: Proxies,
    /// Reads the URL at which it is to be a member.
    read_place: fn(&str) -> Result<Target, WrongTarget>,
    /// Its configuration says where its cloud is.
    pub(crate) is_configured: bool,
    joining: tokio::sync::Mutex<()>,
    joined: Notify,
    /// Why its certificate could not be renewed.
    trouble: Mutex<Option<String>>,
}

impl Member {
    /// The edge of the data directory `data`. One that `is_configured` has its cloud by its configuration, and joins
    /// none.
    pub fn new(data: &Path, proxies: Proxies, is_configured: bool) -> Self {
        Self::of(data.to_owned(), proxies, str::parse, is_configured)
    }

    /// The edge of the data directory `data`, in a site.
    pub fn of_site(data: &Path, proxies: Proxies) -> Self {
        Self::of(data.join(SITE_DIRECTORY), proxies, Target::site, false)
    }

    fn of(
        data: PathBuf,
        proxies: Proxies,
        read_place: fn(&str) -> Result<Target, WrongTarget>,
        is_configured: bool,
    ) -> Self {
        Self {
            data,
            proxies,
            read_place,
            is_configured,
            joining: tokio::sync::Mutex::new(()),
            joined: Notify::new(),
            trouble: Mutex::default(),
        }
    }

    /// Where what it has is kept.
    pub(crate) fn directory(&self) -> &Path {
        &self.data
    }

    /// Waits until it has joined, once for each time.
    pub async fn joined(&self) {
        self.joined.notified().await;
    }

    /// What it has of its cloud, if it has joined one.
    pub(crate) fn membership(&self) -> Option<Membership> {
        let membership = Membership::read(&self.data).ok().flatten();
        membership.filter(|_| !self.is_configured)
    }

    /// Why its certificate could not be renewed, of late.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_trouble(&self, trouble: Option<String>) {
        let mut told = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = trouble.as_ref().filter(|why| told.as_ref() != Some(*why)) {
            tracing::warn!(%why, "the edge's certificate could not be renewed; it is tried again");
        }
        *told = trouble;
    }

    pub(crate) async fn join(
        &self,
        target: &Target,
        join: JoinCloud,
        token: &JoinToken,
    ) -> Result<Membership, MemberError> {
        let _one_at_a_time = self.joining.lock().await;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.data);
        made.map_err(|source| MemberError::Directory {
            path: self.data.clone(),
            source,
        })?;
        let (tls, pin) = pinned_config(token.authority())?;
        let proxies = &self.proxies;
        let cloud = CloudClient { target, proxies, tls };
        let authority_pem = authority(&cloud, token).await?;
        let key = EdgeKey::pending(&self.data)?;
        let asked = Join {
            token: join.token,
            request_pem: key.request_pem()?,
        };
        let grant: Grant = cloud.post("/v1/join", &asked).await?;
        let end = certificate_end(&grant.certificate_pem, grant.valid_s)?;
        let membership = Membership {
            edge: grant.edge,
            cloud_url: join.url,
            link_url: self.link_url(&grant.link_url, target)?,
            certificate_pem: grant.certificate_pem,
            key_pem: key.pem(),
            authority_pem,
            trusts_system: pin.is_by_system(),
            given_at_unix_s: end.given_at_unix_s,
            not_after_unix_s: end.not_after_unix_s,
            renew_at_unix_s: end.renew_at_unix_s,
        };
        self.keep(&membership)?;
        EdgeKey::forget_pending(&self.data)?;
        self.set_trouble(None);
        self.joined.notify_one();
        Ok(membership)
    }

    /// Puts a membership on disk that a link can be made with.
    fn keep(&self, membership: &Membership) -> Result<(), MemberError> {
        membership.link_config()?;
        Ok(membership.write(&self.data)?)
    }

    /// Renews the certificate whenever two thirds of its life are over, until the task is dropped; `renewed` is told
    /// each time. `is_linked`: whether the cloud takes it now.
    pub async fn keep_renewed(&self, is_linked: impl Fn() -> bool, renewed: impl Fn()) {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            match self.renew_if_due(is_linked()).await {
                Ok(false) => {}
                Ok(true) => {
                    self.set_trouble(None);
                    pause = FIRST_PAUSE;
                    renewed();
                }
                Err(why) => {
                    self.set_trouble(Some(why.to_string()));
                    // Full jitter: a cloud that comes back is not asked by all of its edges at once.
                    tokio::time::sleep(jitter(pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Whether it was renewed.
    async fn renew_if_due(&self, is_linked: bool) -> Result<bool, MemberError> {
        let _one_at_a_time = self.joining.lock().await;
        let membership = match Membership::read(&self.data)? {
            Some(membership) if membership.renewal_is_due(unix_now_s(), is_linked) => membership,
            _ => return Ok(false),
        };
        let key = EdgeKey::generate()?;
        let renewed = self.renewed(membership, &key).await?;
        self.keep(&renewed)?;
        tracing::info!(
            until = date_time(renewed.not_after_unix_s),
            "the edge's certificate was renewed"
        );
        Ok(true)
    }

    async fn renewed(&self, old: Membership, key: &EdgeKey) -> Result<Membership, MemberError> {
        let target = Target::https(&old.cloud_url)?;
        let cloud = CloudClient {
            target: &target,
            proxies: &self.proxies,
            tls: old.https_config()?,
        };
        let request_pem = key.request_pem()?;
        let old_key = EdgeKey::from_pem(&old.key_pem)?;
        let signature = old_key.sign_renewal(&request_pem)?;
        let asked = Renew {
            certificate_pem: old.certificate_pem.clone(),
            request_pem,
            signature: Base64::encode_string(&signature),
        };
        let grant: Grant = cloud.post("/v1/renew", &asked).await?;
        let end = certificate_end(&grant.certificate_pem, grant.valid_s)?;
        Ok(Membership {
            link_url: self.link_url(&grant.link_url, &target)?,
            certificate_pem: grant.certificate_pem,
            key_pem: key.pem(),
            given_at_unix_s: end.given_at_unix_s,
            not_after_unix_s: end.not_after_unix_s,
            renew_at_unix_s: end.renew_at_unix_s,
            ..old
        })
    }

    /// Where the link goes, seen from here.
    fn link_url(&self, said: &str, target: &Target) -> Result<String, MemberError> {
        let url = said.replace("{host}", &target.url_host());
        match (self.read_place)(&url) {
            Ok(_) => Ok(url),
            Err(source) => Err(MemberError::LinkUrl {
                said: said.to_owned(),
                source,
            }),
        }
    }
}

/// The authority of the cloud, which is the one that the token names. Only then it is shown the token.
async fn authority(cloud: &CloudClient<'_>, token: &JoinToken) -> Result<String, MemberError> {
    let authority: AuthorityInfo = cloud.get("/v1/authority").await?;
    let found = CertificateDer::from_pem_slice(authority.certificate_pem.as_bytes())
        .map_err(|_| CloudError::Unexpected(cloud.target.place()))?;
    let found = Fingerprint::of(&found);
    match found == token.authority() {
        true => Ok(authority.certificate_pem),
        false => Err(MemberError::OtherCloud {
            place: cloud.target.place(),
            found,
            wanted: token.authority(),
        }),
    }
}

fn jitter(most: Duration) -> Duration {
    most.mul_f64(rand::random())
}
