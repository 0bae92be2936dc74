//! From a manifest's route to one that can be evaluated, refused where it cannot work.

use device::topic::{Channel, DeviceTopic, validate_id};
use manifest::{Route, Target as TargetSpec, Upstream};

use crate::condition::Condition;
use crate::filter::Filter;
use crate::template::{Piece, Placeholder, Template, TemplateError};

/// What is wrong with a route, and where: [`manifest::Document::error`] makes file and line of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct RouteError {
    /// The field, such as `spec.when`.
    pub path: String,
    /// Where in the field's text, in bytes.
    pub offset: usize,
    /// In words, with what would be right.
    pub message: String,
}

/// A route that was checked and is ready to be evaluated.
#[derive(Clone, Debug)]
pub struct CompiledRoute {
    /// What it was made of.
    pub(crate) source: Box<Route>,
    pub(crate) filter: Filter,
    pub(crate) condition: Option<Condition>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Topic(Template),
    Method {
        device: Template,
        name: Box<str>,
        /// `None`: the payload of the message.
        payload: Option<Template>,
    },
    Upstream,
}

type Compile<T> = Result<T, RouteError>;

impl CompiledRoute {
    /// Checks and compiles a route.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn compile(route: &Route) -> Compile<Self> {
        let filter = Filter::parse(&route.from).map_err(|message| wrong("spec.from", 0, message))?;
        let condition = route.when.as_deref().map(|when| condition(when, &filter)).transpose()?;
        let mut upstreams = route.to.iter().enumerate().filter(|(_, target)| is_upstream(target));
        if let (Some(_), Some((i, _))) = (upstreams.next(), upstreams.next()) {
            let message = "is the second one; a route sends a message upstream once";
            return Err(wrong(&format!("spec.to[{i}].upstream"), 0, message));
        }
        let targets = route.to.iter().enumerate();
        let targets =
            targets.map(|(i, target)| compile_target(target, &format!("spec.to[{i}]"), &filter, condition.is_none()));
        let targets = targets.collect::<Compile<_>>()?;
        Ok(CompiledRoute {
            source: Box::new(route.clone()),
            filter,
            condition,
            targets,
        })
    }

    /// The route's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// How its messages wait for the cloud; `None`: it sends none there.
    #[must_use]
    pub fn upstream(&self) -> Option<&Upstream> {
        self.source.to.iter().find_map(|target| match target {
            TargetSpec::Upstream(upstream) => Some(upstream),
            _ => None,
        })
    }
}

fn is_upstream(target: &TargetSpec) -> bool {
    matches!(target, TargetSpec::Upstream(_))
}

fn wrong(path: &str, offset: usize, message: impl Into<String>) -> RouteError {
    RouteError {
        path: path.to_owned(),
        offset,
        message: message.into(),
    }
}

fn condition(when: &str, filter: &Filter) -> Compile<Condition> {
    let condition = Condition::compile(when).map_err(|error| wrong("spec.when", error.offset, error.message))?;
    match condition.uses_device() {
        Some(offset) if !may_name_device(filter) => Err(wrong("spec.when", offset, no_device("device"))),
        _ => Ok(condition),
    }
}

fn compile_target(target: &TargetSpec, path: &str, filter: &Filter, unconditional: bool) -> Compile<Target> {
    match target {
        TargetSpec::Topic(topic) => topic_target(topic, &format!("{path}.topic"), filter, unconditional),
        TargetSpec::Method { device, name, payload } => {
            method_target(device, name, payload.as_deref(), &format!("{path}.method"), filter)
        }
        TargetSpec::Upstream(_) => Ok(Target::Upstream),
    }
}

fn topic_target(topic: &str, path: &str, filter: &Filter, unconditional: bool) -> Compile<Target> {
    let template = template(topic, path, filter)?;
    if let Some(message) = wrong_with_topic(topic, &template, filter) {
        return Err(wrong(path, 0, message));
    }
    if unconditional && always_matches(filter, &template) {
        let message = format!(
            "every copy would match spec.from ({}) again and go round; choose another topic or add spec.when",
            filter.text()
        );
        return Err(wrong(path, 0, message));
    }
    Ok(Target::Topic(template))
}

fn method_target(device: &str, name: &str, payload: Option<&str>, path: &str, filter: &Filter) -> Compile<Target> {
    let device_path = format!("{path}.device");
    let template = template(device, &device_path, filter)?;
    if let Err(error) = validate_id(&sample(&template, filter)) {
        return Err(wrong(&device_path, 0, error.to_string()));
    }
    validate_id(name).map_err(|error| wrong(&format!("{path}.name"), 0, error.to_string()))?;
    let payload = payload.map(Template::parse_payload);
    if let Some(payload) = &payload {
        check_placeholders(payload, &format!("{path}.payload"), filter)?;
    }
    Ok(Target::Method {
        device: template,
        name: name.into(),
        payload,
    })
}

fn template(text: &str, path: &str, filter: &Filter) -> Compile<Template> {
    let unknown = |error: TemplateError| wrong(path, error.offset, error.message);
    let template = Template::parse_strict(text).map_err(unknown)?;
    check_placeholders(&template, path, filter)?;
    Ok(template)
}

/// Placeholders that no matching topic has anything for.
fn check_placeholders(template: &Template, path: &str, filter: &Filter) -> Compile<()> {
    if template.uses(Placeholder::Device) && !may_name_device(filter) {
        return Err(wrong(path, 0, no_device("{device}")));
    }
    let levels = filter.levels().count();
    let open = filter.levels().last() == Some("#");
    for piece in template.pieces() {
        if let Piece::Placeholder(Placeholder::Level(n)) = piece
            && *n > levels
            && !open
        {
            let message = format!(
                "there is no level {{{n}}}: topics that match {} have {levels}",
                filter.text()
            );
            return Err(wrong(path, 0, message));
        }
    }
    Ok(())
}

fn no_device(what: &str) -> String {
    format!("\"{what}\" is used, but the topics of spec.from name no device; those that do are devices/ID/…")
}

/// Whether a topic `devices/{id}/…` can match.
fn may_name_device(filter: &Filter) -> bool {
    let mut levels = filter.levels();
    match levels.next() {
        Some("#") => return true,
        Some("devices" | "+") => {}
        _ => return false,
    }
    match levels.next() {
        Some("#") => true,
        Some(_) => levels.next().is_some(),
        None => false,
    }
}

fn wrong_with_topic(text: &str, template: &Template, filter: &Filter) -> Option<String> {
    if text.is_empty() {
        return Some("is empty; a topic has at least one character".to_owned());
    }
    if let Some(c) = text.chars().find(|c| matches!(c, '+' | '#' | '\0')) {
        return Some(format!("has {c:?} in it, which no topic to publish to has"));
    }
    if text.starts_with('$') {
        return Some("begins with \"$\"; those topics are the hub's own".to_owned());
    }
    let sample = sample(template, filter);
    match DeviceTopic::parse(&sample)?.channel {
        Channel::Telemetry | Channel::Other => None,
        _ => Some(
            "publishes to a topic of twins and methods, which routes leave alone; to call a method use the target method"
                .to_owned(),
        ),
    }
}

/// A text that the template could make.
fn sample(template: &Template, filter: &Filter) -> String {
    pattern(template, filter)
        .split('/')
        .map(|level| if level.contains([ANY, '#']) { "x" } else { level })
        .collect::<Vec<_>>()
        .join("/")
}

/// Stands in a pattern for a level of which nothing is known; no topic has this character.
const ANY: char = '\0';

/// The levels of all texts that the template makes: literal where all have the same, else with [`ANY`] in them; `#`
/// stands for any number of levels.
fn pattern(template: &Template, filter: &Filter) -> String {
    let level = |n: usize| match filter.levels().nth(n - 1) {
        Some("+" | "#") | None => ANY.to_string(),
        Some(literal) => literal.to_owned(),
    };
    let any = |level: &str| {
        if level == "+" {
            ANY.to_string()
        } else {
            level.to_owned()
        }
    };
    let piece = |piece: &Piece| match piece {
        Piece::Literal(text) => text.to_string(),
        Piece::Placeholder(Placeholder::Device) => level(2),
        Piece::Placeholder(Placeholder::Level(n)) => level(*n),
        Piece::Placeholder(Placeholder::Topic) => filter.levels().map(any).collect::<Vec<_>>().join("/"),
    };
    template.pieces().iter().map(piece).collect()
}

/// Whether whatever the template makes matches the filter. Where only some of it would, the limit of hops ends it.
fn always_matches(filter: &Filter, template: &Template) -> bool {
    let pattern = pattern(template, filter);
    let mut made = pattern.split('/');
    for level in filter.levels() {
        match (level, made.next()) {
            ("#", _) => return true,
            ("+", Some(made)) if made != "#" => {}
            (literal, Some(made)) if literal == made => {}
            _ => return false,
        }
    }
    made.next().is_none()
}
