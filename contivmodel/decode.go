package contivmodel

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/contiv/netplugin/utils/fault"
)

// Decode reads an object of the kind from a request body. Names match regardless of case, unknown fields and
// anything after the first JSON value are ignored, links are dropped, defaults are filled in. It does not
// validate: the caller first sets the key of the URL. Errors are fault.Malformed.
func (k Kind) Decode(body []byte) (Object, error) {
	o := k.New()
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(o); err != nil {
		return nil, k.malformed(err)
	}
	ClearLinks(o)
	ApplyDefaults(o)
	return o, nil
}

// malformed describes the error of a body in terms of JSON instead of Go.
func (k Kind) malformed(err error) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		if wrongType.Field == "" {
			return fault.New(fault.Malformed, "%s: a JSON object wanted, %s given", k.Type, wrongType.Value)
		}
		return fault.New(fault.Malformed, "%s: field %s takes no %s", k.Type, wrongType.Field, wrongType.Value).
			WithField(wrongType.Field)
	}
	return fault.New(fault.Malformed, "%s: body is not JSON: %w", k.Type, err)
}
