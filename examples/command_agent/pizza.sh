#!/bin/sh
# A shell script as an agent: it asks, remembers, shows its work, refuses.
#
#     a2a-gateway serve --agent command:examples/command_agent/pizza.sh

read -r words
orders=${TMPDIR:-/tmp}/pizza-orders-$(id -u)
umask 077
mkdir -p "$orders"
# the gateway makes the ids of tasks: they are good names for files
order=$orders/$A2A_TASK_ID

if [ "$A2A_TURN" = 1 ]; then
    echo "$words" >"$order"
    echo "Which topping?"
    exit 10 # asks the client; what it says next comes as turn 2
fi

echo "You said first: $(cat "$order")"
rm -f "$order"
case $words in
*pineapple*)
    echo "Not here."
    exit 1 # the task has FAILED
    ;;
esac
for step in dough "$words" cheese; do
    echo "$step ..."
    sleep 0.1
done
echo "Your pizza is ready."
