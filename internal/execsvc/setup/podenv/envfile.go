package podenv

import (
	"fmt"
	"strings"
)

// blank may precede a name and follow a value.
const blank = " \t"

// parseEnvFile reads a file of variables as Kubernetes defines them (KEP-3721), which is a part of what a POSIX shell
// understands:
//
//	# a comment
//	NAME='value, which may go on
//	in the next line; $NAME, \ and # mean themselves'   # another comment
//	EMPTY= anything
//
// There is no other way to quote, and no quote within a value. Of a name that is there twice the last one counts.
// Errors name the line, and nothing of what it says.
func parseEnvFile(text string) (map[string]string, error) {
	text = strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\r")
	values := map[string]string{}
	for number := 1; text != ""; number++ {
		line, rest, _ := strings.Cut(text, "\n")
		assignment := strings.TrimLeft(line, blank)
		if assignment == "" || assignment[0] == '#' {
			text = rest
			continue
		}
		name, value, ok := strings.Cut(assignment, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d: there is no '='", number)
		case name == "":
			return nil, fmt.Errorf("line %d: there is no name before '='", number)
		case strings.TrimRight(name, blank) != name:
			return nil, fmt.Errorf("line %d: there is a space before '='", number)
		case strings.TrimLeft(value, blank) != value:
			// A shell reads an empty value and a command after it.
			values[name] = ""
			text = rest
			continue
		case !strings.HasPrefix(value, "'"):
			return nil, fmt.Errorf("line %d: the value isn't in single quotes", number)
		}
		// The value may span lines.
		value, rest, ok = strings.Cut(text[len(line)-len(value)+1:], "'")
		if !ok {
			return nil, fmt.Errorf("line %d: the single quote isn't closed", number)
		}
		number += strings.Count(value, "\n")
		line, rest, _ = strings.Cut(rest, "\n")
		if after := strings.TrimLeft(line, blank); after != "" && after[0] != '#' {
			return nil, fmt.Errorf("line %d: there is something after the closing quote", number)
		}
		values[name] = value
		text = rest
	}
	return values, nil
}
