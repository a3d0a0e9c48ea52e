package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// settingsDir is where the kernel's settings of networks are, those of the namespace
// that a thread is in.
const settingsDir = "/proc/sys/net"

// openSettings lets this process change settings of networks, those of the host and
// of pods. Container runtimes make all of /proc/sys read-only for a container; in its own view of the file
// system, who may enter namespaces (CAP_SYS_ADMIN) can have a part of it writable, so
// no other privilege is needed. Outside of a container nothing is done.
func openSettings(dir string) error {
	var mount unix.Statfs_t
	if err := unix.Statfs(dir, &mount); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if mount.Flags&unix.ST_RDONLY == 0 {
		return nil
	}
	err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, "")
	if err == nil {
		err = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	if err != nil {
		return fmt.Errorf("settings of networks cannot be changed: make %s writable: %w; the container needs SYS_ADMIN, and AppArmor must allow it to mount", dir, err)
	}
	return nil
}
