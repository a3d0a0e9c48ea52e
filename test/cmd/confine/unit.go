package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unit is the section Service of a unit: the values of each setting, in their order.
type unit map[string][]string

// known are the settings that this program implements.
var known = []string{
	"AmbientCapabilities", "CapabilityBoundingSet", "Environment", "ExecStartPre", "LimitNOFILE", "LogsDirectory", "LogsDirectoryMode",
	"MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectControlGroups", "ProtectHome",
	"ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "ProtectSystem", "ReadWritePaths", "RestrictAddressFamilies", "RestrictNamespaces",
	"RuntimeDirectory", "RuntimeDirectoryMode", "StateDirectory", "StateDirectoryMode", "SystemCallFilter", "UMask", "User",
}

// left are the settings that it ignores: those for starting and ending a service, and restrictions that the
// missing capabilities or system calls imply.
var left = []string{
	"EnvironmentFile", "ExecReload", "ExecStart", "Group", "KeyringMode", "KillMode", "LockPersonality", "PrivateUsers", "ProcSubset", "ProtectClock", "ProtectHostname",
	"ProtectKernelLogs", "RemoveIPC", "Restart", "RestartPreventExitStatus", "RestartSec", "RestrictRealtime", "RestrictSUIDSGID", "RuntimeDirectoryPreserve",
	"SystemCallArchitectures", "SystemCallErrorNumber", "TimeoutStopSec", "Type",
}

// places are the directories of a service.
var places = []struct{ setting, below string }{{"StateDirectory", "/var/lib"}, {"RuntimeDirectory", "/run"}, {"LogsDirectory", "/var/log"}}

var specifiers = strings.NewReplacer("%S", "/var/lib", "%t", "/run", "%L", "/var/log")

func readUnit(path string) (unit, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	u, section := unit{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		key, value, isSetting := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = line
		case section != "[Service]":
		case !isSetting || strings.HasSuffix(line, `\`) || !slices.Contains(known, key) && !slices.Contains(left, key):
			return nil, fmt.Errorf("%s: %q: nobody has said what to do about this", path, line)
		case value == "": // resets the earlier values
			u[key] = nil
		default:
			u[key] = append(u[key], specifiers.Replace(value))
		}
	}
	return u, nil
}

// is reports whether a setting is on.
func (u unit) is(key string) bool { return slices.Equal(u[key], []string{"yes"}) }

// words returns the words of all values of a setting.
func (u unit) words(key string) []string { return strings.Fields(strings.Join(u[key], " ")) }

// last returns the effective value of a setting with one value.
func (u unit) last(key, otherwise string) string {
	if n := len(u[key]); n > 0 {
		return u[key][n-1]
	}
	return otherwise
}

// user returns the user of the service, which systemd-sysusers(8) creates if it does not exist.
func (u unit) user(folder string) (uid, gid int, err error) {
	name := u.last("User", "root")
	who, err := user.Lookup(name)
	if err != nil {
		if out, err := exec.Command("systemd-sysusers", filepath.Join(folder, "contiv.sysusers")).CombinedOutput(); err != nil {
			return 0, 0, fmt.Errorf("systemd-sysusers: %w: %s", err, out)
		}
		if who, err = user.Lookup(name); err != nil {
			return 0, 0, err
		}
	}
	if uid, err = strconv.Atoi(who.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(who.Gid)
	return uid, gid, err
}

// prepare creates the directories of the service.
func (u unit) prepare(uid, gid int) error {
	for _, place := range places {
		for _, name := range u.words(place.setting) {
			path := filepath.Join(place.below, name)
			mode, err := strconv.ParseUint(u.last(place.setting+"Mode", "0755"), 8, 32)
			if err == nil {
				err = os.MkdirAll(path, 0o755)
			}
			if err == nil {
				err = os.Chmod(path, os.FileMode(mode))
			}
			if err == nil {
				err = os.Chown(path, uid, gid)
			}
			if err != nil {
				return fmt.Errorf("%s=%s: %w", place.setting, name, err)
			}
		}
	}
	return nil
}

// limits sets the resource limits of a unit.
func (u unit) limits() error {
	mask, err := strconv.ParseUint(u.last("UMask", "0022"), 8, 32)
	if err != nil {
		return fmt.Errorf("UMask: %w", err)
	}
	unix.Umask(int(mask))
	if files := u.last("LimitNOFILE", ""); files != "" {
		n, err := strconv.ParseUint(files, 10, 64)
		if err != nil {
			return fmt.Errorf("LimitNOFILE: %w", err)
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
			return err
		}
		n = min(n, now.Max) // a test machine may not permit raising it
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("LimitNOFILE: %w", err)
		}
	}
	return nil
}

// capabilities are those used in the units, with their numbers.
var capabilities = map[string]uintptr{
	"CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN, "CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"CAP_NET_RAW": unix.CAP_NET_RAW, "CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN,
}

// dropCapabilities retains only those that the unit lists. Root has no others when the program starts, and other
// users have none.
func (u unit) dropCapabilities() error {
	var keep []uintptr
	for _, name := range u.words("CapabilityBoundingSet") {
		number, found := capabilities[name]
		if !found {
			return fmt.Errorf("CapabilityBoundingSet=%s: nobody has said its number", name)
		}
		keep = append(keep, number)
	}
	for number := uintptr(0); number <= unix.CAP_LAST_CAP; number++ {
		if slices.Contains(keep, number) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, number, 0, 0, 0); err != nil && err != unix.EINVAL { // unknown to an older kernel
			return fmt.Errorf("capability %d: %w", number, err)
		}
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}
