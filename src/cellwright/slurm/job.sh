#!/bin/bash -l
# A login shell, so that the site's `module` and the user's own settings are there as after a login.
{{modules}}
exec {{host}}
