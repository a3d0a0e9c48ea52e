package main

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// filter is the filter of system calls that systemd makes of the unit.
func (u unit) filter() (seccomp.Policy, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return seccomp.Policy{}, err
	}
	allowed, err := expand("@default")
	if err != nil {
		return seccomp.Policy{}, err
	}
	for _, line := range u["SystemCallFilter"] {
		line, denied := strings.CutPrefix(line, "~")
		for _, name := range strings.Fields(line) {
			calls, err := expand(name)
			if err != nil {
				return seccomp.Policy{}, err
			}
			if denied {
				maps.DeleteFunc(allowed, func(call string, _ bool) bool { return calls[call] })
			} else {
				maps.Copy(allowed, calls)
			}
		}
	}
	// A C library goes on without it where the kernel does not know it; its flags are out of a filter's reach.
	delete(allowed, "clone3")
	unknown := seccomp.SyscallGroup{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)}
	some := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	only := func(call string, conditions ...seccomp.Condition) {
		if allowed[call] || slices.ContainsFunc(some.NamesWithCondtions, func(n seccomp.NameWithConditions) bool { return n.Name == call }) {
			delete(allowed, call)
			some.NamesWithCondtions = append(some.NamesWithCondtions, seccomp.NameWithConditions{Name: call, Conditions: conditions})
		}
	}
	if err := u.families(only); err != nil {
		return seccomp.Policy{}, err
	}
	if err := u.namespaces(only); err != nil {
		return seccomp.Policy{}, err
	}
	if u.is("MemoryDenyWriteExecute") {
		only("mmap", seccomp.Condition{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_EXEC})
		only("mmap", seccomp.Condition{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_WRITE})
		only("mprotect", seccomp.Condition{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_EXEC})
		only("pkey_mprotect", seccomp.Condition{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_EXEC})
	}
	all := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	for _, call := range slices.Sorted(maps.Keys(allowed)) {
		if _, here := machine.SyscallNames[call]; here { // lists have those of all machines
			all.Names = append(all.Names, call)
		}
	}
	return seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{unknown, some, all}}, nil
}

// expand returns the system calls of a name: itself, or those of a set, as systemd has them.
func expand(name string) (map[string]bool, error) {
	if !strings.HasPrefix(name, "@") {
		return map[string]bool{name: true}, nil
	}
	out, err := exec.Command("systemd-analyze", "syscall-filter", "--no-pager", name).Output()
	if err != nil {
		return nil, fmt.Errorf("systemd-analyze syscall-filter %s: %w", name, err)
	}
	calls := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		call := strings.TrimSpace(line)
		if call == "" || call == name || strings.HasPrefix(call, "#") {
			continue
		}
		more, err := expand(call)
		if err != nil {
			return nil, err
		}
		maps.Copy(calls, more)
	}
	return calls, nil
}

// families lets sockets be of the unit's families only.
func (u unit) families(only func(string, ...seccomp.Condition)) error {
	numbers := map[string]uint64{"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_NETLINK": unix.AF_NETLINK, "AF_PACKET": unix.AF_PACKET}
	for _, name := range u.words("RestrictAddressFamilies") {
		number, found := numbers[name]
		if !found {
			return fmt.Errorf("RestrictAddressFamilies=%s: nobody has said its number", name)
		}
		only("socket", seccomp.Condition{Argument: 0, Operation: seccomp.Equal, Value: number})
	}
	return nil
}

// namespaces lets processes make and enter namespaces of the unit's kinds only.
func (u unit) namespaces(only func(string, ...seccomp.Condition)) error {
	const every = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWUTS
	denied := uint64(every)
	switch kinds := u.last("RestrictNamespaces", "no"); kinds {
	case "yes":
	case "net":
		denied &^= unix.CLONE_NEWNET
		only("setns", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: unix.CLONE_NEWNET})
	default:
		return fmt.Errorf("RestrictNamespaces=%s: nobody has said what to do about this", kinds)
	}
	for _, call := range []string{"clone", "unshare"} {
		only(call, seccomp.Condition{Argument: 0, Operation: seccomp.BitsNotSet, Value: denied})
	}
	return nil
}

// load puts the filter before this thread, which can get no privileges any more.
func load(filter seccomp.Policy) error {
	return seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: filter})
}
