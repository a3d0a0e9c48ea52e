package logging

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/secret"
)

func TestSecretsAreNotLogged(t *testing.T) {
	const canary = "canary-0815"
	type shown struct{ Password secret.Text }
	type hidden struct{ password secret.Text }
	for _, json := range []bool{true, false} {
		var out bytes.Buffer
		logger := logrus.New()
		logger.SetOutput(&out)
		if err := (Config{Level: "info", JSON: json}).Apply(logger); err != nil {
			t.Fatal(err)
		}
		entry := logger.WithField("name", "ann")
		for _, value := range []any{secret.Text(canary), shown{canary}, &shown{canary}, hidden{canary}, &hidden{canary}, []shown{{canary}}, map[string]hidden{"a": {canary}}} {
			out.Reset()
			entry.WithField("value", value).WithError(errors.New("why")).Info("login")
			if text := out.String(); strings.Contains(text, canary) || !strings.Contains(text, secret.Shown) || !strings.Contains(text, "ann") || !strings.Contains(text, "why") {
				t.Errorf("JSON %v, %T: %s", json, value, text)
			}
		}
	}
}
