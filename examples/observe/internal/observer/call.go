package observer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/reconcile"
)

// call returns the call of a program for an object. If object is nil, the call
// has only the arguments from the key. If program is empty, the call cannot be
// run, and the caller only shows its arguments.
func (o *Options) call(program []string, t Type, key reconcile.Key, v version, object runtime.Object,
) (command.Call, error) {
	var data []string
	if o.Namespaced {
		data = append(data, key.Namespace)
	}
	data = append(data, key.Name)
	c := command.Call{Env: o.variables(t, key, v)}
	if object != nil {
		arguments, err := o.addObject(&c, object)
		if err != nil {
			return c, err
		}
		data = append(data, arguments...)
	}
	if err := o.checkDashes(program, data); err != nil {
		return c, err
	}
	c.Argv = slices.Concat(program, data)
	return c, nil
}

// addObject adds the object as JSON to the standard input and the environment
// of c, as the options ask. It returns the arguments that the templates of the
// options make of the object.
func (o *Options) addObject(c *command.Call, object runtime.Object) (arguments []string, err error) {
	if o.Stdin || o.ObjectVariable != "" {
		content, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encoding the object: %w", err)
		}
		if o.Stdin {
			c.Stdin = slices.Concat(content, []byte{'\n'})
		}
		if o.ObjectVariable != "" {
			c.Env = append(c.Env, o.ObjectVariable+"="+string(content))
		}
	}
	if len(o.Arguments) == 0 {
		return nil, nil
	}
	whole, ok := object.(runtime.Unstructured)
	if !ok {
		return nil, errors.New("executing the templates: only the metadata of the object is cached")
	}
	return o.Arguments.Of(whole.UnstructuredContent())
}

func (o *Options) variables(t Type, key reconcile.Key, v version) []string {
	var variables []string
	if o.TypeVariable != "" {
		variables = append(variables, o.TypeVariable+"="+string(t))
	}
	if o.Identity {
		variables = append(variables, namespaceVariable+"="+key.Namespace, nameVariable+"="+key.Name,
			uidVariable+"="+string(v.uid), versionVariable+"="+v.resourceVersion)
	}
	return variables
}

// checkDashes returns an error if the program may interpret an argument in data
// as a flag.
func (o *Options) checkDashes(program, data []string) error {
	if o.LeadingDashes || len(program) == 0 || slices.Contains(program[1:], "--") {
		return nil
	}
	for _, argument := range data {
		if strings.HasPrefix(argument, "-") {
			return fmt.Errorf("argument %q from the cluster could be taken for a flag of %q: "+
				"end the command with -- if it understands that, or use --allow-leading-dashes", argument, program[0])
		}
	}
	return nil
}
