// Command confine runs a program as systemd would run it by the unit of a service, on machines without systemd: as
// its user, with its capabilities, in its view of the file system, with its filter of system calls. It refuses
// settings of a unit that it does not know, so that a new line of a unit is either implemented here or ignored
// knowingly.
//
//	confine scripts/systemd/netmaster.service bin/netmaster --mode cni ...
//
// The program replaces this one, with the same process id, like the one of ExecStart. Commands of ExecStartPre
// with a plus run before, outside of the sandbox.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // everything set on this thread applies to the executed program
	fmt.Fprintln(os.Stderr, "confine:", confine(os.Args[1:]))
	os.Exit(1)
}

// confine sets up the sandbox, drops privileges and executes the program: it returns only on failure.
func confine(args []string) error {
	if len(args) < 2 {
		return errors.New("want a unit, a program and its arguments")
	}
	u, err := readUnit(args[0])
	if err != nil {
		return err
	}
	uid, gid, err := u.user(filepath.Dir(args[0]))
	if err != nil {
		return err
	}
	if err := u.prepare(uid, gid); err != nil {
		return err
	}
	if err := u.before(args[1]); err != nil {
		return err
	}
	filters, err := u.filters()
	if err != nil {
		return err
	}
	program, err := unix.Open(args[1], unix.O_PATH, 0) // its directory may soon be invisible
	if err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	if err := u.confineFiles(); err != nil {
		return err
	}
	if err := u.limits(); err != nil {
		return err
	}
	if err := u.dropCapabilities(); err != nil {
		return err
	}
	if err := becomeUser(uid, gid); err != nil {
		return err
	}
	if err := load(filters); err != nil {
		return err
	}
	err = syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", program), args[1:], append(os.Environ(), u["Environment"]...))
	return fmt.Errorf("%s: %w", args[1], err)
}

// becomeUser changes the user of this thread. The functions of package syscall change that of all threads.
func becomeUser(uid, gid int) error {
	for _, set := range []struct{ call, a, b, c uintptr }{
		{unix.SYS_SETGROUPS, 0, 0, 0},
		{unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)},
		{unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
	} {
		if _, _, errno := unix.RawSyscall(set.call, set.a, set.b, set.c); errno != 0 {
			return fmt.Errorf("user %d, group %d: %w", uid, gid, errno)
		}
	}
	return nil
}

// before runs the commands that precede the program, outside of the sandbox.
func (u unit) before(program string) error {
	for _, line := range u["ExecStartPre"] {
		command, outside := strings.CutPrefix(line, "+")
		if !outside {
			return fmt.Errorf("ExecStartPre=%s: only commands with a plus are known", line)
		}
		fields := strings.Fields(command)
		if filepath.Dir(fields[0]) == "/usr/bin" && filepath.Base(fields[0]) == filepath.Base(program) {
			fields[0] = program
		}
		if out, err := exec.Command(fields[0], fields[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}
