package programmer

import (
	"errors"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// isRefusal tells whether the switch has answered, and does not do what it was asked for.
func isRefusal(err error) bool {
	var refusal *openflow.Error
	return errors.As(err, &refusal)
}

// isUnsupported tells whether it has, as it knows no such thing.
func isUnsupported(err error) bool {
	var refusal *openflow.Error
	return errors.As(err, &refusal) && refusal.Unsupported()
}
