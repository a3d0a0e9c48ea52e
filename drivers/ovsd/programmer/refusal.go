package programmer

import (
	"errors"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// isRefusal reports whether the switch has answered that it does not apply a request.
func isRefusal(err error) bool {
	var refusal *openflow.Error
	return errors.As(err, &refusal)
}

// isUnsupported reports whether it does not support the request.
func isUnsupported(err error) bool {
	var refusal *openflow.Error
	return errors.As(err, &refusal) && refusal.Unsupported()
}
