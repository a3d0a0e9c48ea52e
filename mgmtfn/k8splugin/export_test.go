package k8splugin

// SweepOnce looks once for attachments whose namespace is gone.
var SweepOnce = (*Server).sweepOnce

// SweepDeleted looks once for attachments whose pods are deleted.
var SweepDeleted = (*Server).sweepDeleted

// AcceptDeletion processes a deletion from the queue.
var AcceptDeletion = (*Server).acceptDeletion

// IsGone reports whether the container of an attachment is gone.
var IsGone = isGone

// UndoMissed undoes an attachment that was found to be gone.
var UndoMissed = (*Server).undoMissed

// Abandon deletes an endpoint of this node that no container uses.
var Abandon = (*Server).abandon

// SameEndpoint tells whether an endpoint is that of a container.
var SameEndpoint = sameEndpoint
