package bell

import "testing"

func TestABellIsHeardOnceHoweverOftenItWasRung(t *testing.T) {
	b := New()
	for range 3 {
		b.Ring()
	}
	<-b
	select {
	case <-b:
		t.Error("heard twice")
	default:
	}
	b.Ring()
	<-b
}
