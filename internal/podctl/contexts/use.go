package contexts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/google/renameio/v2"
	yamlv3 "go.yaml.in/yaml/v3"
)

// Use makes a context of the file the current one. It keeps comments, and replaces the whole file at once, by one that only its
// owner can read. A link stays: the file that it leads to is replaced.
func Use(ctx context.Context, path, name string, endpoint func(string) error) error {
	data, err := read(ctx, path)
	if err != nil {
		return err
	}
	file, err := parse(path, data, endpoint)
	if err != nil {
		return err
	}
	if _, _, err := file.Context(name); err != nil {
		return err
	}
	if data, err = withCurrent(data, name); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if err := replace(target, data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// replace writes a whole file that only its owner can read, whatever the permissions of the one before.
func replace(path string, data []byte) error {
	const ownerOnly = 0o600
	file, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(ownerOnly))
	if err != nil {
		return err
	}
	defer func() { _ = file.Cleanup() }()
	if _, err := file.Write(data); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}

// withCurrent returns the file with another current context.
func withCurrent(data []byte, name string) ([]byte, error) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yamlv3.MappingNode {
		return nil, errors.New("the document isn't a mapping")
	}
	root := document.Content[0]
	value := &yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: "!!str", Value: name}
	found := false
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "currentContext" {
			value.LineComment = root.Content[i+1].LineComment
			root.Content[i+1], found = value, true
		}
	}
	if !found {
		root.Content = append(root.Content, &yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: "!!str", Value: "currentContext"}, value)
	}
	var out bytes.Buffer
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}
