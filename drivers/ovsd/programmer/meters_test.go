package programmer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// choosy is a switch to which a meter of one number cannot be sent, and nothing that is sent with it.
type choosy struct {
	*fakeSwitch
	not uint32
}

func (c choosy) SendEach(ctx context.Context, messages ...openflow.Message) ([]error, error) {
	if slices.ContainsFunc(messages, func(m openflow.Message) bool { return m.(openflow.MeterMod).Meter.ID == c.not }) {
		return nil, errors.New("it cannot be written down")
	}
	return c.fakeSwitch.SendEach(ctx, messages...)
}

// told receives the results of a step.
type told struct {
	id                uint32
	written, putAside *[]uint32
}

func (t told) done() { *t.written = append(*t.written, t.id) }
func (t told) hold() { *t.putAside = append(*t.putAside, t.id) }

// A meter that cannot be sent, or is refused, holds back nothing else.
func TestAMeterThatCannotBeSentKeepsNoOtherBack(t *testing.T) {
	sw := choosy{newFakeSwitch(), 2}
	sw.meters = 3
	var done, held []uint32
	var steps []step
	for id := range uint32(5) {
		steps = append(steps, step{
			owner: pipeline.Key{ID: string(rune('a' + id))}, message: openflow.MeterMod{Meter: openflow.Meter{ID: id}},
			difference: told{id, &done, &held},
		})
	}
	no := refused{}
	if err := sendSteps(t.Context(), sw, steps, no); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(done, []uint32{0, 1, 3}) || !slices.Equal(held, []uint32{2, 4}) || len(no) != 2 {
		t.Errorf("done %d, held back %d, refused %v", done, held, no)
	}
}
