package programmer

// connection is the connected switch, and what is known of its contents.
type connection struct {
	sw       Switch // nil: not connected
	loaded   bool   // the books contain its state; it may have been disconnected since
	compared bool   // its state has been compared with the wanted one
	empty    bool   // it contained nothing of the driver's when it was read
	others   int    // flows that are kept because they cannot be parsed
}

// isRead reports whether the books contain the state of the connected switch.
func (c *connection) isRead() bool { return c.sw != nil && c.loaded }

// done is closed when the connection is lost; nil without one.
func (c *connection) done() <-chan struct{} {
	if c.sw == nil {
		return nil
	}
	return c.sw.Done()
}
