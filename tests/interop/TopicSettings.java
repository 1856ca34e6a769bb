import java.util.Properties;
import java.util.Scanner;
import java.util.TreeSet;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints the names of Kafka's topic settings, then for each name=value of stdin whether Kafka takes it. */
public class TopicSettings {
    public static void main(String[] arguments) {
        for (String name : new TreeSet<>(LogConfig.configNames()))
            System.out.println(name);
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] setting = lines.nextLine().split("=", 2);
            Properties properties = new Properties();
            properties.put(setting[0], setting[1]);
            try {
                LogConfig.validate(properties);
                System.out.println("taken");
            } catch (RuntimeException refusal) {
                System.out.println("refused");
            }
        }
    }
}
