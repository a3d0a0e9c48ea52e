package ledger

import "time"

// Observer is called for each commit of a ledger; it feeds metrics. Several goroutines call it.
type Observer interface {
	// Committed reports one group commit: how many plans ran, how many keys
	// they wrote, how long the store took, and its error.
	Committed(plans, writes int, took time.Duration, err error)
}

type unobserved struct{}

func (unobserved) Committed(int, int, time.Duration, error) {}
