package k8splugin

// SweepOnce looks once for attachments whose namespace is gone.
var SweepOnce = (*Server).sweepOnce

// SweepDeleted looks once for attachments whose pods are deleted.
var SweepDeleted = (*Server).sweepDeleted

// AcceptDeletion processes a deletion from the queue.
var AcceptDeletion = (*Server).acceptDeletion

// IsGone reports whether the container of an attachment is gone.
var IsGone = isGone
