package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// confineFiles gives this thread, and the program that it executes, the unit's view of the file system. Later
// mounts outside are visible inside, but not the other way round.
func (u unit) confineFiles() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("mounts are not shared: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mounts of this namespace: %w", err)
	}
	if u.last("ProtectSystem", "") == "strict" {
		if err := u.readOnly(); err != nil {
			return fmt.Errorf("ProtectSystem: %w", err)
		}
	}
	if u.is("PrivateTmp") {
		for _, path := range []string{"/tmp", "/var/tmp"} {
			if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
				return fmt.Errorf("PrivateTmp: %s: %w", path, err)
			}
		}
	}
	if u.is("PrivateDevices") {
		if err := privateDevices(); err != nil {
			return fmt.Errorf("PrivateDevices: %w", err)
		}
	}
	if u.last("ProtectProc", "") == "invisible" {
		if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=invisible"); err != nil {
			return fmt.Errorf("ProtectProc: %w", err)
		}
	}
	for _, hidden := range []struct {
		setting string
		paths   []string
	}{
		{"ProtectHome", []string{"/home", "/root", "/run/user"}},
		{"ProtectKernelModules", []string{"/usr/lib/modules"}},
	} {
		for _, path := range hidden.paths {
			if !u.is(hidden.setting) || !exists(path) {
				continue
			}
			if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=000"); err != nil {
				return fmt.Errorf("%s: %s: %w", hidden.setting, path, err)
			}
		}
	}
	for setting, paths := range map[string][]string{"ProtectControlGroups": {"/sys/fs/cgroup"}, "ProtectKernelTunables": {"/proc/sys", "/sys"}} {
		for _, path := range paths {
			if !u.is(setting) || !exists(path) {
				continue
			}
			if err := bind(path); err != nil {
				return fmt.Errorf("%s: %w", setting, err)
			}
			if err := setReadOnly(path, true); err != nil {
				return fmt.Errorf("%s: %w", setting, err)
			}
		}
	}
	return os.Chdir("/")
}

// readOnly makes everything read-only except the service's own directories, and mounts that are not files.
func (u unit) readOnly() error {
	writable := []string{"/dev", "/proc", "/sys"}
	for _, place := range places {
		for _, name := range u.words(place.setting) {
			writable = append(writable, filepath.Join(place.below, name))
		}
	}
	for _, path := range u.words("ReadWritePaths") {
		path, mayLack := strings.CutPrefix(path, "-")
		if !mayLack || exists(path) {
			writable = append(writable, path)
		}
	}
	for _, path := range writable {
		if err := bind(path); err != nil {
			return err
		}
	}
	if err := setReadOnly("/", true); err != nil {
		return err
	}
	for _, path := range writable {
		if err := setReadOnly(path, false); err != nil {
			return err
		}
	}
	return nil
}

// privateDevices hides the devices of the machine.
func privateDevices() error {
	const made = "/dev/shm" // place to create the new one before it replaces the old one
	if err := unix.Mount("tmpfs", made, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		file, err := os.Create(filepath.Join(made, name))
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, filepath.Join(made, name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	if err := os.Mkdir(filepath.Join(made, "shm"), 0o1777); err != nil {
		return err
	}
	if err := unix.Mount(made, "/dev", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("tmpfs", made, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
}

// bind makes a directory a mount of its own.
func bind(path string) error {
	if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// setReadOnly sets whether a mount, and those below it, are read-only.
func setReadOnly(path string, yes bool) error {
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if yes {
		attr = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
