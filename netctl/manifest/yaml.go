package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// maxAliased limits how many values the aliases of one text may expand to. Aliases of aliases can make a short
// text very large.
const maxAliased = 1_000_000

// scalar is a YAML value without quotes. It is read as a number or a boolean if the field holds one, and as it is
// written if the field holds a string: there 1.10 is not 1.1.
type scalar struct {
	text  string
	value any
}

func (s scalar) String() string               { return s.text }
func (s scalar) MarshalJSON() ([]byte, error) { return json.Marshal(s.value) }

// octal matches numbers that are octal in YAML 1.1 and decimal in YAML 1.2.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// decodeYAML decodes the documents of a text that are not empty: maps with string keys, lists, nil, strings and
// scalars.
func decodeYAML(text []byte) (values []any, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for i := 1; ; i++ {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		tree := yamlTree{left: maxAliased}
		value, err := tree.value(document.Content[0])
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if value != nil { // nil: only comments
			values = append(values, value)
		}
	}
}

// yamlTree converts the nodes of a document to values.
type yamlTree struct {
	aliased []*yaml.Node // being read
	left    int          // values that aliases may still expand to
}

func (t *yamlTree) value(n *yaml.Node) (any, error) {
	if len(t.aliased) > 0 {
		if t.left--; t.left < 0 {
			return nil, fmt.Errorf("line %d: aliases stand for more than %d values", n.Line, maxAliased)
		}
	}
	switch n.Kind {
	case yaml.MappingNode:
		return t.mapping(n)
	case yaml.SequenceNode:
		items := make([]any, len(n.Content))
		for i, item := range n.Content {
			var err error
			if items[i], err = t.value(item); err != nil {
				return nil, err
			}
		}
		return items, nil
	case yaml.AliasNode:
		if slices.Contains(t.aliased, n.Alias) {
			return nil, fmt.Errorf("line %d: %s contains itself", n.Line, n.Value)
		}
		t.aliased = append(t.aliased, n.Alias)
		defer func() { t.aliased = t.aliased[:len(t.aliased)-1] }()
		return t.value(n.Alias)
	}
	return scalarOf(n)
}

func scalarOf(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!int", "!!float", "!!bool":
		s := scalar{text: n.Value}
		if err := n.Decode(&s.value); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		return s, nil
	}
	return n.Value, nil
}

// mapping reads a map and refuses duplicate keys. Its own keys have precedence over merged ones.
func (t *yamlTree) mapping(n *yaml.Node) (map[string]any, error) {
	members, lines := map[string]any{}, map[string]int{}
	var merged []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key has to be a text", key.Line)
		}
		if line, twice := lines[key.Value]; twice {
			return nil, fmt.Errorf("line %d: key %q is there twice, in line %d before", key.Line, key.Value, line)
		}
		lines[key.Value] = key.Line
		var err error
		if members[key.Value], err = t.value(value); err != nil {
			return nil, err
		}
	}
	for _, from := range merged {
		value, err := t.value(from)
		if err != nil {
			return nil, err
		}
		if err := merge(members, value); err != nil {
			return nil, fmt.Errorf("line %d: %w", from.Line, err)
		}
	}
	return members, nil
}

// merge adds the missing members of a map, or of each of a list of maps.
func merge(members map[string]any, value any) error {
	switch v := value.(type) {
	case map[string]any:
		for name, value := range v {
			if _, has := members[name]; !has {
				members[name] = value
			}
		}
	case []any:
		for _, item := range v {
			if _, isMap := item.(map[string]any); !isMap {
				return errors.New("only maps can be merged")
			}
			if err := merge(members, item); err != nil {
				return err
			}
		}
	default:
		return errors.New("only maps can be merged")
	}
	return nil
}
