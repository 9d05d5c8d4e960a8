//! Ranks that are threads of this process.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use super::Exchange;
use crate::error::{Error, Result};

/// One thread's end.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    size: usize,
    /// To each other rank, or to the leader alone.
    to: Vec<Sender<Vec<u8>>>,
    /// From each other rank, or from the leader alone.
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

/// The ends of `size` ranks, the leader's first.
pub fn ends(size: usize) -> Vec<Threads> {
    let mut leader = Threads { rank: 0, size, to: Vec::new(), from: Vec::new() };
    let others: Vec<Threads> = (1..size)
        .map(|rank| {
            let ((down, from), (to, up)) = (channel(), channel());
            leader.to.push(down);
            leader.from.push(Mutex::new(up));
            Threads { rank, size, to: vec![to], from: vec![Mutex::new(from)] }
        })
        .collect();
    std::iter::once(leader).chain(others).collect()
}

impl Threads {
    fn send(&self, at: usize, message: Vec<u8>) -> Result<()> {
        self.to[at].send(message).map_err(|_| self.gone(at))
    }

    fn receive(&self, at: usize) -> Result<Vec<u8>> {
        let receiver = self.from[at].lock().unwrap_or_else(PoisonError::into_inner);
        receiver.recv().map_err(|_| self.gone(at))
    }

    fn gone(&self, at: usize) -> Error {
        Error::Device(format!("rank {} is gone", if self.rank == 0 { at + 1 } else { 0 }))
    }
}

/// All results, or the first error once every step is done: if one rank is gone, the others still get their messages.
fn all<T>(each: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    each.collect::<Vec<_>>().into_iter().collect()
}

impl Exchange for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>> {
        if self.rank > 0 {
            return self.receive(0);
        }
        all((0..self.to.len()).map(|at| self.send(at, message.clone())))?;
        Ok(message)
    }

    fn scatter(&self, mut messages: Vec<Vec<u8>>) -> Result<Vec<u8>> {
        if self.rank > 0 {
            return self.receive(0);
        }
        let others = messages.split_off(1);
        all(others.into_iter().enumerate().map(|(at, message)| self.send(at, message)))?;
        Ok(messages.swap_remove(0))
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        if self.rank > 0 {
            self.send(0, message)?;
            return Ok(Vec::new());
        }
        let others = all((0..self.from.len()).map(|at| self.receive(at)))?;
        Ok(std::iter::once(message).chain(others).collect())
    }
}
