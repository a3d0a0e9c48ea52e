package fault

import (
	"errors"
	"io"
	"slices"
	"testing"
)

func TestEveryWrappedErrorIsFound(t *testing.T) {
	first, second := New(NotFound, "no tenant blue"), New(Invalid, "no name").WithField("name")
	both := New(Unavailable, "%w; %w; %w", first, second, io.EOF)
	if both.Error() != "no tenant blue; no name; EOF" || KindOf(both) != Unavailable {
		t.Errorf("%s: %s", KindOf(both), both)
	}
	for _, cause := range []error{first, second, io.EOF} {
		if !errors.Is(both, cause) {
			t.Errorf("%q is not found in %q", cause, both)
		}
	}
}

func TestAnErrorThatIsSharedDoesNotChange(t *testing.T) {
	shared := New(NotLeader, "nobody leads").WithDetails("first")
	one := shared.WithField("f").WithDetails("second")
	other := shared.WithDetails("third")
	if shared.Field != "" || len(shared.Details) != 1 {
		t.Errorf("the shared error became %+v", shared)
	}
	if one.Field != "f" || !slices.Equal(one.Details, []string{"first", "second"}) || !slices.Equal(other.Details, []string{"first", "third"}) {
		t.Errorf("made of it: %+v, %+v", one, other)
	}
	if !errors.Is(one, shared) || !Is(other, NotLeader) {
		t.Error("what is made of an error is not that error any more")
	}
}
