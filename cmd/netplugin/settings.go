package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// settingsDir has the network sysctls, those of the namespace of the reading thread.
const settingsDir = "/proc/sys/net"

// openSettings makes network sysctls writable for this process, those of the host and of pods. Container runtimes
// make all of /proc/sys read-only for a container; in its own mount namespace, a process that may enter namespaces
// (CAP_SYS_ADMIN) can remount a part of it writable, so no other privilege is needed. Outside of a container it
// has no effect.
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
