//! `selvedge key …`.

use api::{Page, RotateKeys, TokenKeyInfo, paths};
use clap::Subcommand;

use super::Asked;
use crate::output::table;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the one that signs and those that still verify what they have signed
    List(Asked),
    /// Sign with a new key from now on; tokens signed before are good until they end
    Rotate {
        /// Make all tokens worthless that were signed before, because a key got out: connections made with them end,
        /// devices and apps need new ones, users go on with their refresh tokens
        #[arg(long)]
        at_once: bool,
        #[command(flatten)]
        asked: Asked,
    },
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::List(asked) => list(&asked),
            Command::Rotate { at_once, asked } => rotate(at_once, &asked),
        }
    }
}

fn list(asked: &Asked) -> anyhow::Result<()> {
    let keys: Page<TokenKeyInfo> = asked
        .edge
        .ask(false, async |client| Ok(client.get(paths::TOKEN_KEYS).await?))?;
    asked.output.show(&keys.items, |keys| shown(keys));
    Ok(())
}

fn rotate(at_once: bool, asked: &Asked) -> anyhow::Result<()> {
    let rotate = RotateKeys { at_once };
    let keys: Page<TokenKeyInfo> = asked.edge.ask(false, async |client| {
        Ok(client.post(paths::TOKEN_KEYS, &rotate).await?)
    })?;
    let said = match at_once {
        true => {
            "all tokens from before are worthless, the connections made with them ended; give devices and apps new ones: \
             selvedge device credential add ID --token"
        }
        false => "tokens signed before are good until they end",
    };
    asked.output.show(&keys.items, |keys| {
        format!("tokens are signed with a new key from now on; {said}\n{}", shown(keys))
    });
    Ok(())
}

fn shown(keys: &[TokenKeyInfo]) -> String {
    table(["KEY", "SINCE", "USE"], &keys.iter().map(row).collect::<Vec<_>>())
}

fn row(key: &TokenKeyInfo) -> [String; 3] {
    let until = |until: &String| format!("verifies until {until}");
    let used = key.until.as_ref().map_or("signs".to_owned(), until);
    [key.id.clone(), key.created.clone(), used]
}
