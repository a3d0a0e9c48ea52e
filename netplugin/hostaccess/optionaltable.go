package hostaccess

import (
	"context"

	"github.com/contiv/netplugin/utils/fault"
)

// optionalTable is a table that a host can do without, such as one without nft(8).
type optionalTable struct {
	rules
	mayExist bool // the table, of this process or an earlier one
}

func (t *optionalTable) write(ctx context.Context, want table) error {
	t.mayExist = true
	return exceptUnsupported(t.apply(ctx, want))
}

func (t *optionalTable) drop(ctx context.Context) error {
	if !t.mayExist {
		return nil
	}
	err := exceptUnsupported(t.remove(ctx))
	t.mayExist = err != nil
	return err
}

// exceptUnsupported returns nil for an error that nft(8) is missing.
func exceptUnsupported(err error) error {
	if fault.Is(err, fault.Unsupported) {
		return nil
	}
	return err
}
