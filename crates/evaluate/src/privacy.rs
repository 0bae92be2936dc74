//! What a raw file must not say: where things lie on the machine of the person who made it.

/// Characters behind which a path may begin.
const BEFORE: [char; 8] = [' ', '\n', '\t', '"', '\'', '`', '(', '='];
/// Characters that end a path.
const BEHIND: [char; 11] = [' ', '\n', '\t', '"', '\'', '`', ')', ':', ';', ',', '|'];

/// `text` with each absolute path cut down to its last name.
pub(crate) fn without_paths(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, ' ');
    while let Some(first) = rest.chars().next() {
        let end = if first == '/' && BEFORE.contains(&before) {
            let end = rest.find(BEHIND).unwrap_or(rest.len());
            let name = rest[..end].trim_end_matches('/').rsplit('/').next();
            out.push_str(name.unwrap_or_default());
            end
        } else {
            out.push(first);
            first.len_utf8()
        };
        before = rest[..end].chars().next_back().unwrap_or(first);
        rest = &rest[end..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_name_of_a_path_is_kept() {
        let cases = [
            ("/tmp/.tmpX/selvedge/data: no space left", "data: no space left"),
            ("`/home/ann/selvedge edge` failed", "`selvedge edge` failed"),
            ("--data=/var/lib/x/ (os error 2)", "--data=x (os error 2)"),
            (
                "mqtt://ann@host:1883: refused 3/4 of devices/+/a",
                "mqtt://ann@host:1883: refused 3/4 of devices/+/a",
            ),
            ("größer als /größe", "größer als größe"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_paths(text), expected);
        }
    }
}
