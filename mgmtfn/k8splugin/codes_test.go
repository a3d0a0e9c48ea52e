package k8splugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

func TestEveryFailureHasItsCNICode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code uint
	}{
		{failed(stepRequest, fault.New(fault.Malformed, "x")), 6},
		{failed(stepRequest, fault.New(fault.TooLarge, "x")), 6},
		{failed(stepNetns, fault.New(fault.NotFound, "x")), 3},
		{failed(stepNetns, fault.New(fault.Invalid, "x")), 4},
		{failed(stepLabels, fault.New(fault.NotFound, "x")), 3},
		{failed(stepLabels, fault.New(fault.Unavailable, "x")), 11},
		{failed(stepLabels, fault.New(fault.Denied, "x")), 11},
		{failed(stepLabels, fault.New(fault.Invalid, "x")), 4},
		{failed(stepState, errors.New("disk full")), 5},
		{failed(stepState, fault.New(fault.Conflict, "x")), 11},
		{failed(stepState, fault.New(fault.NotFound, "x")), 3},
		{failed(stepMaster, fault.New(fault.Exhausted, "x")), 101},
		{failed(stepMaster, fault.New(fault.NotFound, "x")), 102},
		{failed(stepMaster, fault.New(fault.MissingReference, "x")), 102},
		{failed(stepMaster, fault.New(fault.Invalid, "x")), 7},
		{failed(stepMaster, fault.New(fault.Conflict, "x")), 7},
		{failed(stepMaster, fault.New(fault.InUse, "x")), 7},
		{failed(stepMaster, fault.New(fault.Unavailable, "x")), 104},
		{failed(stepMaster, fault.New(fault.NotLeader, "x")), 104},
		{failed(stepMaster, fault.New(fault.Unavailable, "no leader: %w", context.DeadlineExceeded)), 104},
		{failed(stepMaster, context.DeadlineExceeded), 11},
		{failed(stepMaster, errors.New("x")), 100},
		{failed(stepDatapath, fault.New(fault.NotFound, "x")), 103},
		{failed(stepDatapath, errors.New("x")), 103},
		{failed(stepDatapath, fmt.Errorf("flows: %w", context.DeadlineExceeded)), 11},
		{failed(stepPod, errors.New("x")), 103},
		{failed(stepPod, fault.New(fault.Invalid, "x")), 7},
		{failed(stepCheck, errors.New("x")), 103},
		{failed(stepNetns, fault.New(fault.Invalid, "network namespace x: %w", unix.EMFILE)), 11},
		{failed(stepNetns, fmt.Errorf("open own network namespace: %w", unix.ENFILE)), 11},
		{failed(stepState, &fs.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}), 5},
		{failed(stepPod, fmt.Errorf("open netlink socket: %w", unix.ENOMEM)), 11},
		{failed(stepDatapath, os.NewSyscallError("clone", unix.EAGAIN)), 11},
		{failed(stepMaster, fault.New(fault.Unavailable, "dial: %w", unix.EMFILE)), 11},
		{failed(stepState, unix.EROFS), 5},
		{types.NewError(50, "x", ""), 50},
		{failed(stepNetns, types.NewError(4, "x", "")), 4},
		{fmt.Errorf("replace: %w", failed(stepMaster, fault.New(fault.Unavailable, "x"))), 104},
		{errors.Join(failed(stepDatapath, errors.New("first")), failed(stepMaster, errors.New("second"))), 103},
		{errors.New("a bug"), 100},
	} {
		got := cniError(c.err)
		if got.Code != c.code || got.Msg == "" {
			t.Errorf("%v: CNI error %d %q, want %d", c.err, got.Code, got.Msg, c.code)
		}
		if _, isCNI := c.err.(*types.Error); !isCNI && !strings.Contains(got.Msg, strings.TrimPrefix(c.err.Error(), "network namespace: ")) {
			t.Errorf("%v: message %q lost the cause", c.err, got.Msg)
		}
	}
}

func TestEveryStepHasACodeForAnyKind(t *testing.T) {
	for step, kinds := range codes {
		if kinds[anyKind] == 0 {
			t.Errorf("step %q has no code for kinds it does not name", step)
		}
	}
}
