package k8splugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

// Error codes of this plugin; the specification reserves 100 and above for plugins.
const (
	codeInternal          uint = 100
	codePoolExhausted     uint = 101
	codeNoNetwork         uint = 102 // network, group or tenant not found
	codeDatapath          uint = 103
	codeMasterUnreachable uint = 104
)

// step is the part of a command that failed.
type step string

const (
	stepRequest  step = "request"
	stepNetns    step = "network namespace"
	stepLabels   step = "labels"
	stepState    step = "checkpoint"
	stepMaster   step = "master"
	stepDatapath step = "datapath"
	stepPod      step = "pod interface"
	stepCheck    step = "check"
	stepUnknown  step = "internal" // an error without a step
)

// anyKind stands for the kinds that a step has no row for.
const anyKind fault.Kind = -1

// codes maps every failure to a CNI error code. No other place does.
var codes = map[step]map[fault.Kind]uint{
	stepRequest: {
		fault.Malformed: types.ErrDecodingFailure,
		fault.TooLarge:  types.ErrDecodingFailure,
		anyKind:         types.ErrInvalidEnvironmentVariables,
	},
	stepNetns: {
		fault.NotFound: types.ErrUnknownContainer, // gone, with everything in it
		anyKind:        types.ErrInvalidEnvironmentVariables,
	},
	stepLabels: {
		fault.NotFound: types.ErrUnknownContainer,
		fault.Invalid:  types.ErrInvalidEnvironmentVariables,
		anyKind:        types.ErrTryAgainLater,
	},
	stepState: {
		fault.NotFound: types.ErrUnknownContainer,
		fault.Conflict: types.ErrTryAgainLater,
		anyKind:        types.ErrIOFailure,
	},
	stepMaster: {
		fault.Exhausted:        codePoolExhausted,
		fault.NotFound:         codeNoNetwork,
		fault.MissingReference: codeNoNetwork,
		fault.Invalid:          types.ErrInvalidNetworkConfig,
		fault.Conflict:         types.ErrInvalidNetworkConfig,
		fault.InUse:            types.ErrInvalidNetworkConfig,
		fault.Unavailable:      codeMasterUnreachable,
		fault.NotLeader:        codeMasterUnreachable,
		anyKind:                codeInternal,
	},
	stepDatapath: {anyKind: codeDatapath},
	stepPod: {
		fault.Invalid: types.ErrInvalidNetworkConfig,
		anyKind:       codeDatapath,
	},
	stepCheck:   {anyKind: codeDatapath},
	stepUnknown: {anyKind: codeInternal},
}

// failure is an error with the step in which it occurred.
type failure struct {
	step  step
	cause error
}

// failed marks an error with its step; nil stays nil.
func failed(s step, err error) error {
	if err == nil {
		return nil
	}
	return &failure{step: s, cause: err}
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %v", f.step, f.cause) }
func (f *failure) Unwrap() error { return f.cause }

// cniError converts any error to a CNI error for the runtime. CNI errors are returned as they are. A shortage of the
// machine becomes "try again later" in any step, and so does a timeout, unless a fault says what took the time.
func cniError(err error) *types.Error {
	var ready *types.Error
	if errors.As(err, &ready) {
		return ready
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{step: stepUnknown, cause: err}
	}
	if isShortage(err) || fault.As(err) == nil && isTimeout(err) {
		return types.NewError(types.ErrTryAgainLater, err.Error(), string(f.step))
	}
	code, ok := codes[f.step][fault.KindOf(f.cause)]
	if !ok {
		code = codes[f.step][anyKind]
	}
	return types.NewError(code, err.Error(), string(f.step)+": "+fault.KindOf(f.cause).String())
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// shortages are the errors of a machine that has used up its descriptors, memory or processes for now. They say
// nothing about the request or the container. A full disk is an I/O failure, for which CNI has a code.
var shortages = []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EAGAIN}

func isShortage(err error) bool {
	return slices.ContainsFunc(shortages, func(shortage error) bool { return errors.Is(err, shortage) })
}
