package survival

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseDiary reads the diary of one container, which the sample program writes. A last line that was cut short
// because the process died is no error.
func ParseDiary(uid, container, text string) ([]Run, error) {
	var runs []Run
	byID := map[string]int{}
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		words := strings.Fields(line)
		if len(words) < 3 {
			return nil, fmt.Errorf("diary of %s in pod %s: line %q can't be parsed", container, uid, line)
		}
		nanos, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("diary of %s in pod %s: %w", container, uid, err)
		}
		at, id := time.Unix(0, nanos), words[1]
		i, known := byID[id]
		switch what := words[2]; {
		case what == "start" && !known:
			byID[id] = len(runs)
			runs = append(runs, Run{UID: uid, Container: container, ID: id, Start: at})
		case what == "term" && known:
			if runs[i].Term.IsZero() {
				runs[i].Term = at
			}
		case what == "end" && known && len(words) == 4:
			runs[i].End = at
			if runs[i].Code, err = strconv.Atoi(words[3]); err != nil {
				return nil, fmt.Errorf("diary of %s in pod %s: %w", container, uid, err)
			}
		default:
			return nil, fmt.Errorf("diary of %s in pod %s: line %q can't be parsed", container, uid, line)
		}
	}
	return runs, nil
}
