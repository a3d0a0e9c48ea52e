package resources

import (
	"errors"

	"github.com/contiv/netplugin/utils/fault"
)

// ErrNoAddress matches, by errors.Is, errors about a range without a free address. Other resources are exhausted
// as well, such as the store.
var ErrNoAddress = errors.New("no address is left")

// noAddress is such an error, with a text of its own.
type noAddress struct{ error }

func (e noAddress) Unwrap() error        { return e.error }
func (e noAddress) Is(target error) bool { return target == ErrNoAddress }

func exhausted(format string, args ...any) error {
	return noAddress{fault.New(fault.Exhausted, format, args...)}
}
