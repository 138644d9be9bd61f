package names_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// alive tells whether there is a process of that id that is not a zombie.
func alive(pid string) error {
	id, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil {
		return err
	}
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/stat"); err == nil {
		if _, state, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(state, "Z") {
			return os.ErrProcessDone
		}
	}
	return syscall.Kill(id, 0)
}
