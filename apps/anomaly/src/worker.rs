//! The process that a model runs in. It limits itself before it looks at the model, which may be hostile.

use std::error::Error;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::engine::{Engine, Shape};
use crate::predictor::{ANSWER, COMPLAINT};

/// Works until nobody asks any more. `words` are readings and features of a window, opset, and bytes of memory.
///
/// # Errors
/// There is nobody to work for.
pub(crate) fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let [readings, features, opset, memory_bytes] = words else {
        return Err("it is started by anomaly itself".into());
    };
    limit(memory_bytes.parse()?)?;
    let shape = Shape {
        readings: readings.parse()?,
        features: features.parse()?,
    };
    let opset = opset.parse()?;
    // A prediction is asked for by a thread of the engine's, so that none is handed from one to another.
    let worked = rten::thread_pool().run(|| work(shape, opset));
    Ok(worked?)
}

fn work(shape: Shape, opset: i64) -> std::io::Result<()> {
    let mut socket = UnixStream::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let engine = match load(shape, opset) {
        Ok(engine) => engine,
        Err(complaint) => return say(&mut socket, COMPLAINT, complaint.as_bytes()),
    };
    say(&mut socket, ANSWER, &[])?;
    let mut bytes = vec![0; shape.values() * size_of::<f32>()];
    let mut window = vec![0.0; shape.values()];
    while socket.read_exact(&mut bytes).is_ok() {
        for (value, bytes) in window.iter_mut().zip(bytes.as_chunks().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        let began = Instant::now();
        let scored = engine.score(&window);
        let predict_us = began.elapsed().as_secs_f32() * 1e6;
        match scored {
            Ok(score) => say(
                &mut socket,
                ANSWER,
                &[score.to_le_bytes(), predict_us.to_le_bytes()].concat(),
            )?,
            Err(complaint) => return say(&mut socket, COMPLAINT, complaint.as_bytes()),
        }
    }
    Ok(())
}

/// Of memory and rights; and it does not outlive who started it.
fn limit(memory_bytes: u64) -> Result<(), Box<dyn Error>> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let only = |bytes| Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    // Where memory is short, this process is the one that goes.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    setrlimit(Resource::Data, only(memory_bytes))?;
    setrlimit(Resource::Core, only(0))?;
    setrlimit(Resource::Fsize, only(0))?;
    Ok(())
}

fn load(shape: Shape, opset: i64) -> Result<Engine, String> {
    let stdin = std::io::stdin();
    let file = stdin.as_fd().try_clone_to_owned().map(std::fs::File::from);
    let read = file.and_then(|file| {
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    });
    let bytes = read.map_err(|error| format!("it cannot be read: {error}"))?;
    Engine::load(bytes, shape, opset)
}

fn say(socket: &mut UnixStream, kind: u8, what: &[u8]) -> std::io::Result<()> {
    let what = &what[..what.len().min(1 << 10)];
    let mut frame = vec![kind];
    frame.extend(u32::try_from(what.len()).unwrap_or(0).to_le_bytes());
    frame.extend(what);
    socket.write_all(&frame)
}
