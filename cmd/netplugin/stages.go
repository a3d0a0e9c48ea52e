package main

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// task runs until its context is done; any other end is a failure.
type task func(context.Context) error

// serve runs tasks in two stages. The front accepts requests from outside, which the core carries out; at the end
// the front stops first, so that the core still runs for requests in progress. A failure on either side ends both.
func serve(ctx context.Context, core, front []task) error {
	coreCtx, stopCore := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCore()
	back, coreCtx := errgroup.WithContext(coreCtx)
	for _, t := range core {
		back.Go(func() error { return unlessDone(coreCtx, t) })
	}
	outside, frontCtx := errgroup.WithContext(ctx)
	for _, t := range front {
		outside.Go(func() error { return unlessDone(frontCtx, t) })
	}
	outside.Go(func() error {
		select {
		case <-coreCtx.Done():
			return errCoreEnded // the core returns the cause
		case <-frontCtx.Done():
			return nil
		}
	})
	err := outside.Wait()
	stopCore()
	if coreErr := back.Wait(); errors.Is(err, errCoreEnded) || err == nil {
		err = coreErr
	}
	return err
}

var errCoreEnded = errors.New("a part of the agent ended")

// unlessDone drops the error of a task if its context has ended.
func unlessDone(ctx context.Context, t task) error {
	err := t(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		return errCoreEnded
	}
	return err
}
