package k8splugin

// AcceptDeletion is what is done about a deletion that was found in the queue.
var AcceptDeletion = (*Server).acceptDeletion
