package jsonstream

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

type inner struct {
	Name  string         `json:"name,omitempty"`
	Items []int          `json:"items,omitempty"`
	Last  map[string]int `json:"last,omitempty"`
}

type outer struct {
	Bare  int
	All   []inner          `json:"all,omitempty"`
	Index map[string]inner `json:"index"`
	List  []string         `json:"list"`
	Empty struct{}         `json:"empty,omitempty"`
	Text  string           `json:"text,omitempty"`
}

// late is an Array of items.
func late[T any](items ...T) Array {
	return func(item func(any) error) error {
		for _, value := range items {
			if err := item(value); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestTheTextIsThatOfEncodingJSON(t *testing.T) {
	a, b := inner{Name: "a<b>", Items: []int{1, 2}}, inner{Last: map[string]int{"z": 1, "y": 2}}
	members := Map(func(member func(string, any) error) error {
		return errors.Join(member("first\"", a), member("second", b))
	})
	for _, c := range []struct{ lazy, whole any }{
		{late(a, b), []inner{a, b}},
		{late[inner](), []inner{}},
		{late(late(1, 2), late[int](), late(3)), [][]int{{1, 2}, {}, {3}}},
		{members, map[string]inner{"first\"": a, "second": b}},
		{Map(func(func(string, any) error) error { return nil }), map[string]int{}},
		{a, a},
		{Object{Of: &outer{Text: "x"}}, outer{Text: "x"}},
		{Object{Of: inner{}}, inner{}},
		{Object{Of: inner{}, Late: map[string]any{"items": late[int]()}}, inner{}},
		{Object{Of: inner{Name: "n"}, Late: map[string]any{"items": late(4, 5)}}, inner{Name: "n", Items: []int{4, 5}}},
		{Object{Of: outer{}, Late: map[string]any{"all": late(a, b), "index": members, "list": late[string]()}},
			outer{All: []inner{a, b}, Index: map[string]inner{"first\"": a, "second": b}, List: []string{}}},
		{Object{Of: outer{}, Late: map[string]any{"all": late(Object{Of: a, Late: map[string]any{"items": late(9)}})}},
			outer{All: []inner{{Name: a.Name, Items: []int{9}}}}},
	} {
		want, err := json.Marshal(c.whole)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := Write(&got, c.lazy); err != nil || got.String() != string(want)+"\n" {
			t.Errorf("%s (%v), want %s", got.String(), err, want)
		}
	}
}

func TestTheFirstErrorEndsTheWriting(t *testing.T) {
	failed := errors.New("no third item")
	made := 0
	failing := Array(func(item func(any) error) error {
		for made = range 10 {
			if made == 2 {
				return failed
			}
			if err := item(made); err != nil {
				return err
			}
		}
		return nil
	})
	if err := Write(io.Discard, Object{Of: outer{}, Late: map[string]any{"list": failing}}); !errors.Is(err, failed) {
		t.Errorf("a part that fails: %v", err)
	}
	full := errors.New("full")
	if err := Write(refusing{full}, failing); !errors.Is(err, full) || made != 0 {
		t.Errorf("a reader that refuses: %v after %d items", err, made)
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }
