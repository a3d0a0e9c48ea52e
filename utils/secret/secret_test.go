package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
)

func TestASecretIsNotPrinted(t *testing.T) {
	const canary = "canary-0815"
	type holder struct {
		Name     string
		Password Text
		More     []Text
	}
	held := holder{"a", canary, []Text{canary}}
	texts := []string{fmt.Sprint(Text(canary)), Text(canary).String(), fmt.Errorf("of %w: %v", fmt.Errorf("x"), held).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.5s"} {
		texts = append(texts, fmt.Sprintf(verb, Text(canary)), fmt.Sprintf(verb, held), fmt.Sprintf(verb, &held), fmt.Sprintf(verb, []Text{canary}), fmt.Sprintf(verb, map[Text]Text{canary: canary}))
	}
	var log bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&log)
	logger.WithField("held", held).WithField("secret", Text(canary)).Info(held)
	for _, text := range append(texts, log.String()) {
		if strings.Contains(text, canary) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", canary)) || !strings.Contains(text, Shown) {
			t.Errorf("%s", text)
		}
	}
	if text := fmt.Sprint(Text("")); text != "" {
		t.Errorf("none: %q", text)
	}
}

func TestJSONHasTheSecret(t *testing.T) {
	var back Text
	text, err := json.Marshal(Text("s"))
	if err != nil || string(text) != `"s"` || json.Unmarshal(text, &back) != nil || back != "s" {
		t.Errorf("%s, %q, %v", text, string(back), err)
	}
}

func TestWhichTypesHaveSecrets(t *testing.T) {
	type ring struct {
		next   *ring
		hidden []map[string]struct{ of Text }
	}
	type bare struct {
		next *bare
		Name string
	}
	for value, want := range map[any]bool{Text(""): true, &ring{next: nil, hidden: nil}: true, [1]Text{}: true, new(map[Text]int): true,
		"": false, 1: false, &bare{next: nil}: false, nil: false, new(func(Text)): false} {
		if got := In(reflect.TypeOf(value)); got != want {
			t.Errorf("%T: %v", value, got)
		}
	}
}
