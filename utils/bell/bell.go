// Package bell wakes a goroutine that waits for something to do.
package bell

// Bell is rung by anybody and heard by one goroutine, which receives from it. Rung
// while nobody waits, it wakes the next one that does; rung many times meanwhile, it
// wakes it once.
type Bell chan struct{}

// New makes a bell that has not been rung.
func New() Bell { return make(Bell, 1) }

// Ring never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default: // it has not been heard since the last time
	}
}
