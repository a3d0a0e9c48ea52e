package apidoc

import (
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
