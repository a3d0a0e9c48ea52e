package apidoc

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestTheDocumentIsValidOpenAPI(t *testing.T) {
	text, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// A generator of clients that many use has to make one of the document, with
// nothing configured.
func TestAClientCanBeGeneratedFromTheDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the generator")
	}
	text, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	generate := exec.CommandContext(t.Context(), "go", "tool", "oapi-codegen", "-package", "netmaster", file)
	generate.Dir = filepath.Join("..", "..", "scripts", "tools")
	var code, complaints bytes.Buffer
	generate.Stdout, generate.Stderr = &code, &complaints
	if err := generate.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints.Bytes())
	}
	for _, made := range []string{"type Network struct", "type TenantQuery = string", "func (c *Client) ListNetwork("} {
		if !bytes.Contains(code.Bytes(), []byte(made)) {
			t.Errorf("the client has no %q", made)
		}
	}
}
