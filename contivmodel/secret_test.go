package contivmodel

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

const canary = "canary-4711"

// secretive is an object of every kind that has secrets, with a canary in each.
func secretive() (all []Object) {
	for _, k := range Kinds() {
		if len(k.secrets) == 0 {
			continue
		}
		o := k.New()
		for _, f := range k.secrets {
			if err := f.Set(o, canary); err != nil {
				panic(err)
			}
		}
		all = append(all, o)
	}
	return all
}

func TestSecretsOfObjectsAreNotShown(t *testing.T) {
	objects := secretive()
	if len(objects) == 0 {
		t.Fatal("no kind has a secret")
	}
	for _, o := range objects {
		kept := WithSecrets(KindOf(o).New(), o) // an update without secrets
		shown := WithSecrets(KindOf(o).New(), o)
		Redact(shown)
		back := WithSecrets(shown, o) // the redacted object is sent back
		for _, f := range KindOf(o).secrets {
			if f.of(kept).String() != canary || f.of(back).String() != canary || f.of(shown).String() != "***" {
				t.Errorf("%s %s: kept %s, sent back %s, shown %s", o.ModelType(), f.Name, f.of(kept), f.of(back), f.of(shown))
			}
			if text := fmt.Sprintf("%v %+v %#v %v", o, o, o, f.Value(o)); strings.Contains(text, canary) {
				t.Errorf("%s is printed: %s", f.Name, text)
			}
			if err := CheckSecrets(shown); !fault.Is(err, fault.Invalid) || fault.As(err).Field != f.Name {
				t.Errorf("what is shown is taken as the secret: %v", err)
			}
			for name, text := range map[string]string{"long": strings.Repeat(canary, 100), "a line": canary + "\n", "no text": canary + "\xff"} {
				bad := KindOf(o).New()
				if err := f.Set(bad, text); err != nil {
					t.Fatal(err)
				}
				err := f.validate(f.of(bad))
				if err == nil || strings.Contains(err.Error()+fault.Explain(err), canary) || fault.As(err).Field != f.Name {
					t.Errorf("%s: %v: %s", name, err, fault.Explain(err))
				}
			}
		}
		if err := CheckSecrets(o); err != nil {
			t.Error(err)
		}
		text, err := json.Marshal(shown)
		if err != nil || strings.Contains(string(text), canary) {
			t.Errorf("%s, %v", text, err)
		}
	}
}
