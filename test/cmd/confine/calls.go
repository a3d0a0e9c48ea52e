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

// filters returns systemd's filters for the unit: one with the permitted system calls, and one for each that is
// refused with some arguments. The kernel evaluates all of them. (After a condition that does not hold, the
// library continues with the argument in place of the call's number: nothing may follow it.)
func (u unit) filters() ([]seccomp.Policy, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	allowed, err := expand("@default")
	if err != nil {
		return nil, err
	}
	for _, line := range u["SystemCallFilter"] {
		line, denied := strings.CutPrefix(line, "~")
		for _, name := range strings.Fields(line) {
			calls, err := expand(name)
			if err != nil {
				return nil, err
			}
			if denied {
				maps.DeleteFunc(allowed, func(call string, _ bool) bool { return calls[call] })
			} else {
				maps.Copy(allowed, calls)
			}
		}
	}
	// A C library does without it where the kernel lacks it; a filter cannot check its flags.
	delete(allowed, "clone3")
	unknown := seccomp.SyscallGroup{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)}
	all := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	for _, call := range slices.Sorted(maps.Keys(allowed)) {
		if _, here := machine.SyscallNames[call]; here { // lists have those of all architectures
			all.Names = append(all.Names, call)
		}
	}
	refused, err := u.refused()
	if err != nil {
		return nil, err
	}
	policies := []seccomp.Policy{{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{unknown, all}}}
	for _, call := range refused {
		policies = append(policies, seccomp.Policy{DefaultAction: seccomp.ActionAllow,
			Syscalls: []seccomp.SyscallGroup{{Action: seccomp.ActionErrno, NamesWithCondtions: []seccomp.NameWithConditions{call}}}})
	}
	return policies, nil
}

// refused returns the calls that are refused if all conditions on their arguments hold.
func (u unit) refused() (list []seccomp.NameWithConditions, err error) {
	refuse := func(call string, conditions ...seccomp.Condition) {
		list = append(list, seccomp.NameWithConditions{Name: call, Conditions: conditions})
	}
	has := func(argument uint32, bits uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: bits}
	}
	var others []seccomp.Condition
	families := map[string]uint64{"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_NETLINK": unix.AF_NETLINK, "AF_PACKET": unix.AF_PACKET}
	for _, name := range u.words("RestrictAddressFamilies") {
		number, found := families[name]
		if !found {
			return nil, fmt.Errorf("RestrictAddressFamilies=%s: nobody has said its number", name)
		}
		others = append(others, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: number})
	}
	if len(others) > 0 {
		refuse("socket", others...)
	}
	namespaces := uint64(unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWUTS)
	switch kinds := u.last("RestrictNamespaces", "no"); kinds {
	case "yes":
		refuse("setns", seccomp.Condition{Argument: 0, Operation: seccomp.GreaterOrEqual, Value: 0}) // any value
	case "net":
		namespaces &^= unix.CLONE_NEWNET
		refuse("setns", seccomp.Condition{Argument: 1, Operation: seccomp.NotEqual, Value: unix.CLONE_NEWNET})
	default:
		return nil, fmt.Errorf("RestrictNamespaces=%s: nobody has said what to do about this", kinds)
	}
	refuse("clone", has(0, namespaces))
	refuse("unshare", has(0, namespaces))
	if u.is("MemoryDenyWriteExecute") {
		refuse("mmap", has(2, unix.PROT_EXEC), has(2, unix.PROT_WRITE))
		refuse("mprotect", has(2, unix.PROT_EXEC))
		refuse("pkey_mprotect", has(2, unix.PROT_EXEC))
	}
	return list, nil
}

// expand returns the system calls of a name: itself, or those of one of systemd's sets.
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

// load installs the filters in this thread, which can gain no privileges afterwards. The first one is installed
// last, as it may not permit further ones.
func load(filters []seccomp.Policy) error {
	for _, policy := range slices.Backward(filters) {
		if err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: policy}); err != nil {
			return err
		}
	}
	return nil
}
