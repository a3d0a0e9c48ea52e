package testkit

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

func TestPollTellsWhatWasWrongWhenTheTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wrong := errors.New("not there")
	err := Poll(ctx, func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return wrong
	})
	if !errors.Is(err, wrong) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestPollEndsWithTheFirstSuccess(t *testing.T) {
	tries := 0
	err := Poll(t.Context(), func() error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

func TestAddressesAreFreeAndGivenOnce(t *testing.T) {
	given := map[string]bool{}
	for range 500 {
		address := FreeAddress()
		if given[address] {
			t.Fatalf("%s is given twice", address)
		}
		given[address] = true
		if reserve(address) {
			t.Fatalf("%s is given to other processes as well", address)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
