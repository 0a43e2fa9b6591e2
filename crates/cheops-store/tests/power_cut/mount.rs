//! The disk as a file system of the kernel, by FUSE: SQLite does not know that it is watched.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::disk::Disk;

/// Nothing is remembered by the kernel about names and sizes.
const TTL: Duration = Duration::ZERO;
const FOLDER: u64 = 1;

/// Called before every change, with the disk as it is.
pub type Watch = Box<dyn Fn(&Disk) + Send + Sync>;

/// Mounts `disk` at `path`, until what is given back is dropped.
pub fn mount(
    disk: Arc<Mutex<Disk>>,
    watch: Watch,
    path: &Path,
) -> std::io::Result<BackgroundSession> {
    fuser::spawn_mount(Mounted { disk, watch }, path, &Config::default())
}

struct Mounted {
    disk: Arc<Mutex<Disk>>,
    watch: Watch,
}

impl Mounted {
    fn look(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    /// The disk, about to be changed.
    fn change(&self) -> MutexGuard<'_, Disk> {
        let disk = self.look();
        (self.watch)(&disk);
        disk
    }
}

fn text(name: &OsStr) -> &str {
    name.to_str().expect("our names are text")
}

fn attributes(disk: &Disk, inode: u64) -> Option<FileAttr> {
    let (kind, perm, size) = match inode {
        FOLDER => (FileType::Directory, 0o700, 0),
        _ => (
            FileType::RegularFile,
            0o600,
            disk.files.get(&inode)?.content.len(),
        ),
    };
    Some(FileAttr {
        ino: INodeNo(inode),
        size: size as u64,
        blocks: size.div_ceil(512) as u64,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).expect("our files are small")
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = self.look();
        let inode = disk.names.get(text(name)).copied();
        match inode.and_then(|inode| attributes(&disk, inode)) {
            Some(found) => reply.entry(&TTL, &found, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(&self.look(), ino.0) {
            Some(found) => reply.attr(&TTL, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if let Some(size) = size {
            self.change().resize(ino.0, at(size));
        }
        match attributes(&self.look(), ino.0) {
            Some(found) => reply.attr(&TTL, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut disk = self.change();
        let inode = disk.create(text(name));
        let made = attributes(&disk, inode).expect("it was made just now");
        reply.created(
            &TTL,
            &made,
            Generation(0),
            FileHandle(0),
            FopenFlags::empty(),
        );
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let disk = self.look();
        let Some(file) = disk.files.get(&ino.0) else {
            return reply.error(Errno::ENOENT);
        };
        let from = at(offset).min(file.content.len());
        let until = (from + size as usize).min(file.content.len());
        reply.data(&file.content[from..until]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = u32::try_from(data.len()).expect("a write has a bounded length");
        match self.change().write(ino.0, at(offset), data) {
            Ok(()) => reply.written(length),
            Err(_) => reply.error(Errno::ENOSPC),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut disk = self.change();
        if disk.sync_fails {
            return reply.error(Errno::EIO);
        }
        disk.sync(ino.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.change().sync_names();
        reply.ok();
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.change().unlink(text(name)) {
            true => reply.ok(),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        from: &OsStr,
        _: INodeNo,
        to: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        match self.change().rename(text(from), text(to)) {
            true => reply.ok(),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let disk = self.look();
        for (place, (name, inode)) in disk.names.iter().enumerate().skip(at(offset)) {
            let next = place as u64 + 1;
            if reply.add(INodeNo(*inode), next, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}
